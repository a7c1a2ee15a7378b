"""A retrained offline model beside its control: what the block costs once the model had time to learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.offline import Offline
from qt_bert.errors import ArgumentError
from qt_bert.planning.choice.measure import changes_of
from qt_bert.planning.grid import as_measured
from qt_bert.planning.offline.recipe import check_same_recipe
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress
from qt_bert.results.offline import Retrained
from qt_bert.results.plan_evidence import Ratio
from qt_bert.scoring.bulk import Scorer

QWK = "qwk"


def retrained_of(task: PlanTask) -> Retrained | None:
    """Both models on all of validation, paired; None where none were given.

    Raises ArgumentError where they were not trained alike (`check_same_recipe`), or are of another
    shape than the plan's model, CheckpointError for folders that hold no model.
    """
    if task.retrained is None:
        return None
    check_same_recipe(task.retrained.offline, task.retrained.control)
    control, offline = (
        _opened(task, folder) for folder in (task.retrained.control, task.retrained.offline)
    )
    block = _block(offline, control)
    with progress(2 * len(task.validation.pairs), "retrained models", "pairs") as shown:
        found = np.stack([one.logits(task.validation.texts, shown) for one in (control, offline)])
    effects = Effects(
        found,
        task.validation.pairs,
        control.checkpoint.settings.labels,
        resamples=task.resamples,
        draws=0,
        seed=task.seed,
    )
    defined = [metric for metric in task.metrics if effects.base(metric) is not None]
    return Retrained(
        name=offline.checkpoint.name,
        sha256=offline.checkpoint.sha256,
        control=control.checkpoint.name,
        control_sha256=control.checkpoint.sha256,
        layers=block.layers,
        title_start=block.title_start,
        title_tokens=block.title_tokens,
        pairs=task.validation.ref,
        measured=as_measured(changes_of(effects, 1, defined)),
        kept=_share(effects) if QWK in defined else None,
    )


def _opened(task: PlanTask, folder: Path) -> Scorer:
    """One of the two. Raises ArgumentError where it could not stand in for the plan's model."""
    planned = task.scorer.checkpoint
    found = open_checkpoint(folder, dtype=planned.dtype)
    if found.shape != planned.shape or found.settings.labels != planned.settings.labels:
        raise ArgumentError(
            f"{folder}: it has {found.layers} layers of {found.heads} heads and "
            f"{found.settings.labels.logits} outputs, and {planned.name} another shape or outputs "
            "that mean something else; give models trained from it, or from the same base"
        )
    return Scorer(found)


def _block(offline: Scorer, control: Scorer) -> Offline:
    """The block of the first. Raises ArgumentError where it has none, or the other has one."""
    block, other = offline.checkpoint.offline, control.checkpoint.offline
    if block is None:
        raise ArgumentError(
            f"--offline {offline.checkpoint.folder}: the model has no offline layers; train one with "
            "`qt-bert train --offline-layers`"
        )
    if other is not None:
        raise ArgumentError(
            f"--offline-control {control.checkpoint.folder}: the model has {other.layers} offline "
            "layers itself; train the control by the same command without --offline-layers"
        )
    return block


def _share(effects: Effects) -> Ratio | None:
    """The offline model's QWK as a share of the control's; None where the control has none to keep."""
    base, value = effects.base(QWK), effects.value(1, QWK)
    if base is None or value is None or base <= 0:
        return None
    whole = effects.resampled_base([QWK])[0]
    ends = effects.interval((effects.resampled(1, QWK) + whole) / whole)
    low, high = ends or (None, None)
    return Ratio(value=value / base, low=low, high=high)
