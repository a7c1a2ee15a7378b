"""Models beside the context's own: before fine-tuning, random weights, tuned with another seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import AutoModelForSequenceClassification

from qt_bert.errors import CheckpointError
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import DTYPES
from qt_bert.models.folder import FolderHashes
from qt_bert.models.loading import open_encoder
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.probes.base import Context
from qt_bert.probes.texts import COMMON, texts_of
from qt_bert.scoring.bulk import Scorer
from qt_bert.text import Text

T = TypeVar("T")

_WRONG = {
    "--base": "it is not the model that was tuned; give the one it was tuned from",
    "--second": "both do not come from the same model; give one tuned from the same base",
}
"""What a difference in shape means, by option."""


@dataclass
class Base(Checkpoint):
    """A model before fine-tuning; `absent` names the weights that its folder lacks, which are random."""

    absent: frozenset[str] = frozenset()


def open_base(folder: Path, like: Checkpoint, option: str = "--base") -> Base:
    """The model that `like` was tuned from, with the dtype, length and tokenizer of `like`.

    Its classifier, and a missing pooler, are random: logits mean nothing. Raises CheckpointError where
    the folder holds no encoder, or one of another family, number of layers, heads or positions, or
    vocabulary. `option` names the user's option in the error.
    """
    with _seeded(0):
        model, family, absent = open_encoder(folder, like.settings.labels.logits)
    labels = ModelLabels(like.settings.labels.logits, None)
    base = Base(
        folder.name,
        folder,
        model.to(like.device, DTYPES[like.dtype]).eval(),
        open_tokenizer(folder),
        family,
        replace(like.settings, labels=labels),
        like.dtype,
        FolderHashes(folder),
        absent=absent,
    )
    _could_become(like, base, option)
    return replace(base, tokenizer=like.tokenizer)


def random_like(like: Checkpoint, seed: int = 0) -> Checkpoint:
    """`like` with randomly initialised weights, the same for the same seed; its hashes differ, so that nothing is
    cached as the folder's weights."""
    with _seeded(seed):
        model = AutoModelForSequenceClassification.from_config(
            like.model.config, attn_implementation="eager"
        )
    return replace(
        like,
        name=f"{like.name}-random",
        model=model.to(like.device, DTYPES[like.dtype]).eval(),
        hashes=FolderHashes(like.folder, f"random {seed}"),
    )


def open_second(folder: Path, like: Checkpoint) -> Checkpoint:
    """Another model tuned from the base of `like`, opened as by `open_base`.

    Raises CheckpointError as that does, and for the weights of `like` itself.
    """
    second = open_base(folder, like, "--second")
    if second.sha256 == like.sha256:
        raise CheckpointError(
            f"{folder}: its weights are those of {like.folder}; give a model tuned with another "
            "seed with --second"
        )
    return second


def _could_become(tuned: Checkpoint, base: Checkpoint, option: str) -> None:
    facts: dict[str, Callable[[Checkpoint], Any]] = {
        "encoder family": lambda model: model.family.model_type,
        "number of layers": lambda model: model.layers,
        "number of heads": lambda model: model.heads,
        "number of positions": lambda model: model.longest,
        "vocabulary": lambda model: model.tokenizer.get_vocab(),
    }
    for name, fact in facts.items():
        if fact(tuned) != fact(base):
            raise CheckpointError(
                f"{base.folder}: its {name} is not that of {tuned.folder}, so {_WRONG[option]} "
                f"with {option}"
            )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch, and restore its random state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def scorer_like(context: Context, checkpoint: Checkpoint) -> Scorer:
    """A scorer of `checkpoint` at the length of the context's model."""
    return Scorer(checkpoint, max_length=context.model.tokenizer.max_length)


def other_seed(context: Context, score: Callable[[Scorer], T]) -> tuple[Text, T] | None:
    """The second model's label and `score` of it, or None. Raises what `open_second` does."""
    if context.request.second is None:
        return None
    checkpoint = open_second(context.request.second, context.model.checkpoint)
    label = texts_of(COMMON).text("second_seed.named", {"name": checkpoint.name})
    return label, score(scorer_like(context, checkpoint))
