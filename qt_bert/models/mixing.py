"""Mixtures of models of one shape, and the parts of a model by the names of their weights.

Wortsman et al. 2022, "Model soups" (equal means of tuned models) and "Robust fine-tuning of zero-shot
models" (WiSE-FT: a model mixed with the one it was tuned from).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import isclose
from pathlib import Path

import torch

from qt_bert.data.templates import Template
from qt_bert.errors import ArgumentError
from qt_bert.models.card import Reading
from qt_bert.models.checkpoint import Checkpoint, save_checkpoint
from qt_bert.models.families import Family
from qt_bert.models.folder import (
    resolve_folder,
    stored_as,
    verify_folder,
    weight_shapes,
    weights_sha256,
)
from qt_bert.models.loading import open_encoder, stored_dtype
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.pruned import is_plain
from qt_bert.models.tokenizer import TYPES, open_tokenizer
from qt_bert.progress import note_once

State = Mapping[str, torch.Tensor]
"""Weights by name."""


def mixture(states: Sequence[State], weights: Sequence[float]) -> dict[str, torch.Tensor]:
    """Σ weight × tensor in float32, over the states that hold the tensor.

    Weights of a tensor that some states lack are scaled to the sum 1, and equal where all are 0.
    """
    mixed = {}
    for name in dict.fromkeys(name for state in states for name in state):
        held = [(w, state[name]) for w, state in zip(weights, states, strict=True) if name in state]
        total = sum(weight for weight, _ in held)
        shares = [weight / total if total else 1 / len(held) for weight, _ in held]
        tensors = [tensor.float() * share for share, (_, tensor) in zip(shares, held, strict=True)]
        mixed[name] = sum(tensors[1:], tensors[0])
    return mixed


def unlike(first: State, second: State, may_lack: Collection[str] = ()) -> str | None:
    """A weight that only one of the states holds, or that differs in shape; None without one.

    `second` may lack the weights `may_lack`.
    """
    sizes, others = ({name: t.shape for name, t in state.items()} for state in (first, second))
    names = {*sizes, *others} - ({*may_lack} - set(others))
    return min((name for name in names if sizes.get(name) != others.get(name)), default=None)


# The parts of a model. Pooler and classifier are one, the head.

ATTENTION, FEED_FORWARD, EMBEDDINGS, HEAD = "attention", "feed_forward", "embeddings", "head"


def part_of(name: str, family: Family) -> tuple[int | None, str]:
    """The layer (None outside the layers) and the part that a weight belongs to.

    Norms belong to their block; those outside the layers go with the embeddings.
    """
    prefix = f"{family.backbone}.{family.layers}."
    if name.startswith(prefix):
        number, _, inside = name.removeprefix(prefix).partition(".")
        block = (*family.parts.up, family.parts.down, family.parts.units_norm)
        is_block = any(inside.startswith(f"{path}.") for path in block)
        return int(number), FEED_FORWARD if is_block else ATTENTION
    is_head = not name.startswith(f"{family.backbone}.") or ".pooler." in name
    return None, HEAD if is_head else EMBEDDINGS


# `qt-bert average`.


def parse_weights(text: str, models: int) -> list[float]:
    """One weight a model from a text such as `0.7,0.3`. Raises ArgumentError for any other text."""
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    fit = len(weights) == models and all(0 <= weight <= 1 for weight in weights)
    if not fit or not isclose(sum(weights), 1, abs_tol=1e-6):
        raise ArgumentError(
            f"--weights {text!r}: give {models} numbers from 0 to 1 that sum to 1, with commas between"
        )
    return weights


def average_models(
    folders: Sequence[Path],
    out: Path,
    weights: Sequence[float] | None = None,
    *,
    reading: Reading | None = None,
    overwrite: bool = False,
) -> Path:
    """Save the mean of the models in `folders`, computed in float32, as a new folder in their (widest) number type.

    `weights`, by default equal, sum to 1; `reading`: how all read texts. For models tuned from the same start or
    from one another, and the start itself: of a folder without classifier or pooler these come from the others,
    which is noted.
    Tokenizer, settings (without calibration), `kept.json` and learning curve are those of the last classifier.
    Raises ArgumentError for fewer than two and for models that differ in shape, kept heads, labels,
    reading or vocabulary; RunFolderError where `out` holds anything.
    """
    if len(folders) < 2:
        raise ArgumentError("an average needs two models or more")
    folders = [resolve_folder(folder) for folder in folders]
    graders = [folder for folder in folders if _has_classifier(folder)] or list(folders)
    opened = {folder: open_checkpoint(folder, reading=reading, compact=True) for folder in graders}
    last = opened[graders[-1]]
    expected, states = last.model.state_dict(), list[State]()
    for folder in folders:
        both = f"{folder.name} and {last.name}"
        absent: Collection[str] = ()
        other = opened.get(folder)
        if other is not None:
            state, tokenizer = other.model.state_dict(), other.tokenizer
        else:
            model, _, absent = open_encoder(folder, last.settings.labels.logits)
            state = {n: t for n, t in model.state_dict().items() if n not in absent}
            tokenizer = open_tokenizer(folder)
            note_once(f"{folder} has no {', '.join(sorted(absent))}: taken from the other models")
        if name := unlike(expected, state, absent):
            raise ArgumentError(f"{both} differ in shape ({name}): no mean is defined")
        if other and other.settings.labels != last.settings.labels:
            raise ArgumentError(f"the outputs of {both} mean different things")
        if other and other.kept and last.kept and other.kept.layers != last.kept.layers:
            raise ArgumentError(f"{both} keep different heads of their teachers")
        if other and _reads(other) != _reads(last):
            raise ArgumentError(
                f"{both} read texts in different ways: by their token types (--token-types settles them) or "
                "templates"
            )
        if tokenizer.get_vocab() != last.tokenizer.get_vocab():
            raise ArgumentError(f"{both} have different vocabularies")
        states.append(state)
    shares = [1 / len(folders)] * len(folders) if weights is None else list(weights)
    models = [{"name": folder.name, "sha256": weights_sha256(folder)} for folder in folders]
    facts = {"schema": 1, "average_of": models, "weights": shares}
    texts = {"training.json": json.dumps(facts, ensure_ascii=False, indent=1) + "\n"}
    log = last.folder / "training_log.jsonl"
    if log.exists():
        texts[log.name] = log.read_text(encoding="utf-8")
    return save_checkpoint(
        out,
        last.model,
        last.tokenizer,
        state=mixture(states, shares),
        settings=replace(last.settings, calibration=None),
        texts=texts,
        kept=last.kept,
        dtype=reduce(torch.promote_types, map(stored_dtype, folders)),
        plain=last.kept is None or is_plain(last.model),
        overwrite=overwrite,
    )


def _reads(checkpoint: Checkpoint) -> tuple[bool, Template | None]:
    """Whether it gets token types, and its template."""
    return TYPES in checkpoint.tokenizer.model_input_names, checkpoint.settings.template


def _has_classifier(folder: Path) -> bool:
    _, family = verify_folder(folder)
    return stored_as(weight_shapes(folder), family.classifier) is not None
