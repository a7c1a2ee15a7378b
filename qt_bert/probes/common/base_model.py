"""The model before fine-tuning, and one that learned nothing, opened for passes over their attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from qt_bert.encoder import (
    DTYPES,
    Checkpoint,
    ModelLabels,
    ModelSettings,
    open_tokenizer,
)
from qt_bert.encoder.tuning import open_for_tuning
from qt_bert.errors import CheckpointError


def open_base(folder: Path, like: Checkpoint) -> Checkpoint:
    """The model that `like` was tuned from, in its dtype, at its length and over the same tokens.

    Its classifier, and a pooler that the folder lacks, are made up: logits mean nothing. Raises
    CheckpointError where the folder holds no encoder, or one that `like` cannot come from: of
    another family, other layers, heads or positions, or with another vocabulary.
    """
    with _seeded(0):
        model, family = open_for_tuning(folder, like.settings.labels.logits)
    labels = ModelLabels(like.settings.labels.logits, None)
    base = Checkpoint(
        folder.name,
        folder,
        model.to(DTYPES[like.dtype]).eval(),
        open_tokenizer(folder),
        family,
        ModelSettings(labels, like.settings.max_length),
        like.dtype,
    )
    _could_become(like, base)
    return replace(base, tokenizer=like.tokenizer)


def random_like(like: Checkpoint, seed: int = 0) -> Checkpoint:
    """`like` with weights as a model has them before pretraining: the same draw for the same seed.

    `folder` and `sha256` stay those of `like`, and say nothing about these weights.
    """
    with _seeded(seed):
        model = AutoModelForSequenceClassification.from_config(
            like.model.config, attn_implementation="eager"
        )
    return replace(like, name=f"{like.name}-random", model=model.to(DTYPES[like.dtype]).eval())


def _could_become(tuned: Checkpoint, base: Checkpoint) -> None:
    facts: dict[str, Callable[[Checkpoint], Any]] = {
        "encoder family": lambda one: one.family.model_type,
        "number of layers": lambda one: one.layers,
        "number of heads": lambda one: one.heads,
        "number of positions": lambda one: one.longest,
        "vocabulary": lambda one: one.tokenizer.get_vocab(),
    }
    for name, fact in facts.items():
        if fact(tuned) != fact(base):
            raise CheckpointError(
                f"{base.folder}: its {name} is not that of {tuned.folder}, so it is not the model "
                "that was tuned; give the one it was tuned from with --base"
            )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's random numbers from `seed`, and afterwards as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
