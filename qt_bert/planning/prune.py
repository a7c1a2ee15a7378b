"""Pruning by a plan: weights removed, compared with the masked model, saved, opened again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from qt_bert.ablation.engine import batch_tokens, sweep
from qt_bert.ablation.importance import unit_importance_on
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.files import check_apart
from qt_bert.heads import Head, names_of
from qt_bert.models.card import Reading
from qt_bert.models.checkpoint import Checkpoint, check_place, save_checkpoint, smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.pruned import Units, is_plain
from qt_bert.planning.runs import Removal, parts_of
from qt_bert.progress import Progress, silent
from qt_bert.results.kept import KEPT, KeptLayer, TeacherRef
from qt_bert.results.plan import Plan
from qt_bert.scoring.bulk import Scorer


def open_teacher(
    plan: Plan, model: str | Path, device: str = "cpu", reading: Reading | None = None
) -> Checkpoint:
    """The model in `model`, on `device`. Raises ArgumentError where `plan` is of other weights."""
    checkpoint = open_checkpoint(model, device=device, reading=reading)
    if checkpoint.sha256 != plan.teacher.sha256:
        raise ArgumentError(
            f"this plan was made for {plan.teacher.name} (weights {plan.teacher.sha256[:12]}…), and "
            f"{checkpoint.folder} holds others ({checkpoint.sha256[:12]}…); give its folder by "
            "--model, or make a plan for this model with `qt-bert plan`"
        )
    return checkpoint


def save_smaller(
    folder: str | Path,
    checkpoint: Checkpoint,
    *,
    state: Mapping[str, torch.Tensor] | None = None,
    texts: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float16,
    like: Path | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a checkpoint that `smaller_checkpoint` made, with `kept.json`, as `save_checkpoint` does.

    Its calibration is left out: it was fitted to the teacher's outputs. Raises ArgumentError for a
    checkpoint that is no smaller model, RunFolderError as `save_checkpoint` does.
    """
    if checkpoint.kept is None or not checkpoint.compact:
        raise ArgumentError(
            f"{checkpoint.name} is no smaller model; it has nothing to store in {KEPT}"
        )
    return save_checkpoint(
        folder,
        checkpoint.model,
        checkpoint.tokenizer,
        state=state,
        settings=replace(checkpoint.settings, calibration=None),
        texts=texts,
        kept=checkpoint.kept,
        dtype=dtype,
        like=like,
        plain=is_plain(checkpoint.model),
        overwrite=overwrite,
    )


def removal_of(heads: Iterable[Head] = (), blocks: Iterable[int] = ()) -> Removal:
    """The heads and blocks to remove, sorted, so that equal removals compare equal."""
    layers = tuple(sorted(set(blocks)))
    return Removal(tuple(sorted(head for head in set(heads) if head.layer not in layers)), layers)


def kept_by(removal: Removal, teacher: TeacherRef) -> tuple[KeptLayer, ...]:
    """The layers of `teacher` that stay, each with its heads that stay."""
    removed = set(removal.heads)
    return tuple(
        KeptLayer(
            layer=layer,
            heads=tuple(head for head in range(teacher.heads) if Head(layer, head) not in removed),
        )
        for layer in range(teacher.layers)
        if layer not in removal.blocks
    )


def removed_from(kept: Sequence[KeptLayer], teacher: TeacherRef) -> Removal:
    """What `kept` removes from `teacher`: the inverse of `kept_by`."""
    layers = {layer.layer: set(layer.heads) for layer in kept}
    heads = (
        Head(layer, head)
        for layer, kept_heads in layers.items()
        for head in range(teacher.heads)
        if head not in kept_heads
    )
    return removal_of(heads, set(range(teacher.layers)) - set(layers))


def lost_heads(removal: Removal, teacher: TeacherRef) -> set[str]:
    """The names of all removed heads, also those of removed layers."""
    of_blocks = [Head(layer, head) for layer in removal.blocks for head in range(teacher.heads)]
    return set(names_of([*removal.heads, *of_blocks]))


def names_of_removal(removal: Removal) -> tuple[str, ...]:
    """The parts of a removal by name, layers (`L3`) before heads (`L5H7`)."""
    return (*(f"L{layer}" for layer in removal.blocks), *names_of(removal.heads))


TOLERANCE = 1e-5
"""How far a logit of the pruned model may lie from the masked one's, as a share of the largest logit
where that is above 1: both round in float32, in another order."""

CHECKED = 64
"""Pairs on which both are compared."""


@dataclass(frozen=True)
class Pruned:
    """The result of pruning.

    `parameters` before and after; `difference`: the largest difference of a logit between the masked
    teacher and the pruned model, before feed-forward units are removed; `plain`: transformers opens
    the folder too.
    """

    folder: Path
    parameters: tuple[int, int]
    difference: float
    plain: bool


def prune(
    teacher: Checkpoint,
    plan: Plan,
    pairs: Sequence[Pair],
    out: Path,
    *,
    overwrite: bool = False,
    shown: Progress = silent,
) -> Pruned:
    """Save what `plan` keeps of `teacher` in `out`.

    A narrower feed-forward keeps the units that the plan names, else those of greatest gradient
    importance on `pairs`, measured after the heads and layers are removed. `shown` counts pairs.

    Raises ArgumentError for no pairs, or `out` in the teacher's folder; EquivalenceError where pruned and
    masked model differ; RunFolderError as `check_place` does.
    """
    if not pairs:
        raise ArgumentError("no pair to compare the pruned model with the masked one; see --pairs")
    check_place(out, overwrite)
    check_apart(out, teacher.folder)
    small = smaller_checkpoint(teacher, [replace(layer, units=None) for layer in plan.kept])
    texts = [(pair.query, pair.title) for pair in pairs[:CHECKED]]
    difference = masked_difference(teacher, small, plan, texts)
    if any(layer.units is not None for layer in plan.kept):
        units = plan_units(plan) or important_units(teacher, plan.kept, pairs, shown)
        small = smaller_checkpoint(teacher, plan.kept, units=units)
    save_smaller(out, small, like=teacher.folder, overwrite=overwrite)
    _opens_as_saved(out, small, texts)
    return Pruned(out, (teacher.parameters, small.parameters), difference, is_plain(small.model))


def plan_units(plan: Plan) -> Units:
    """The units that a plan names, by layer. Raises ArgumentError for a key that is no number."""
    wrong = [layer for layer in plan.units if not layer.isdecimal()]
    if wrong:
        raise ArgumentError(f"the plan names units of layer {wrong[0]!r}; a layer is a number")
    return {int(layer): units for layer, units in plan.units.items()}


def masked_difference(
    teacher: Checkpoint, small: Checkpoint, plan: Plan, texts: Sequence[tuple[str, str]]
) -> float:
    """The largest difference of logits, masked teacher against smaller model, on (query, title) `texts`.

    Raises EquivalenceError where it is above `TOLERANCE`.
    """
    removal, whole = removed_from(plan.kept, plan.teacher), Scorer(teacher)
    variants = [NONE, Variant("pruned", parts_of(removal.heads, removal.blocks))]
    masked = np.empty((len(texts), whole.settings.labels.logits), np.float32)
    for swept in sweep(whole.encoder, whole.batches(texts, batch_tokens()), variants):
        masked[swept.rows] = swept.logits[1]
    difference, allowed = largest_difference(Scorer(small).logits(texts), masked, TOLERANCE)
    if not difference <= allowed:  # nor a difference that is no number
        raise EquivalenceError(
            f"the pruned model's logits differ from the masked model's by {difference:.2e}, more "
            f"than {allowed:.0e}; nothing was saved"
        )
    return difference


def largest_difference(
    logits: np.ndarray, expected: np.ndarray, bound: float
) -> tuple[float, float]:
    """The largest difference of a logit, and the allowed one: `bound` as a share of the largest logit
    where that is above 1."""
    largest = max(1.0, float(np.abs(expected).max(initial=0)))
    return float(np.abs(logits - expected).max(initial=0)), bound * largest


def important_units(
    teacher: Checkpoint, kept: Sequence[KeptLayer], pairs: Sequence[Pair], shown: Progress = silent
) -> Units:
    """Which units stay where `kept` narrows a layer, by gradient importance on `pairs` in the
    `teacher` without the layers and heads that go."""
    if all(layer.units is None for layer in kept):
        return {}
    small = smaller_checkpoint(teacher, [replace(layer, units=None) for layer in kept])
    importance = unit_importance_on(Scorer(small), pairs, shown)
    return {
        layer.layer: sorted(map(int, np.argsort(-values, kind="stable")[: layer.units]))
        for layer, values in zip(kept, importance, strict=True)
        if layer.units is not None
    }


def _opens_as_saved(out: Path, small: Checkpoint, texts: Sequence[tuple[str, str]]) -> None:
    """Raise EquivalenceError where the saved folder gives other logits than `small`."""
    again = open_checkpoint(out, dtype=small.dtype, device=str(small.device), compact=True)
    stored, expected = (Scorer(checkpoint).logits(texts) for checkpoint in (again, small))
    difference, allowed = largest_difference(stored, expected, TOLERANCE)
    if not difference <= allowed:
        raise EquivalenceError(
            f"{out}: opened again, its logits differ by {difference:.2e} from those of the model that "
            "was saved; do not use the folder"
        )
