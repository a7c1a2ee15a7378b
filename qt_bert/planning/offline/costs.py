"""What reading the texts apart costs, without retraining: by moved positions, by the block, by both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.planning.choice.measure import Changes, changes_of
from qt_bert.planning.choice.runs import logits
from qt_bert.planning.offline.moved import OfflineTask
from qt_bert.planning.task import Sample
from qt_bert.progress import Progress


@dataclass(frozen=True, eq=False)
class Costs:
    """By metric, the paired changes against the model as it is; by number of layers, where they
    depend on it. `block` is empty where it was not asked for."""

    positions: Changes
    block: Mapping[int, Changes]
    both: Mapping[int, Changes]


def costs_of(job: OfflineTask, sample: Sample, *, role: str, block: bool, shown: Progress) -> Costs:
    """What the rows cost on `sample`; `block` asks for the block alone, too.

    The block is a cut of the masked loop (`ablation.cuts`). With the titles moved it is what an
    offline model does, and all numbers of layers share the layers below. The sweeps are kept in the
    task's folder, under names with the `role` of the sample; `shown` counts variants × pairs.
    """
    task, cuts, offline = job.task, job.cuts, job.layout.offline
    plain = logits(
        task.scorer,
        sample.pairs,
        cuts if block else [],
        work=task.work,
        name=f"offline-{role}-block",
        shown=shown,
    )
    moved = logits(
        job.moved,
        sample.pairs,
        cuts,
        work=task.work,
        # A sweep's key knows the model by its folder, which says nothing of moved titles.
        name=f"offline-{role}-moved-{offline.title_start}-{offline.title_tokens}",
        shown=shown,
    )
    found = _changes(task.metrics, _effects(job, sample, np.concatenate([plain, moved])))
    of_block = found[1 : len(plain)]
    positions, *of_both = found[len(plain) :]
    return Costs(
        positions,
        dict(zip(job.counts, of_block, strict=True)) if block else {},
        dict(zip(job.counts, of_both, strict=True)),
    )


def runs_of(job: OfflineTask) -> int:
    """Variants × pairs that the rows take on both samples."""
    each = 1 + len(job.counts)
    return (1 + each) * len(job.discovery.pairs) + 2 * each * len(job.validation.pairs)


def _effects(job: OfflineTask, sample: Sample, found: np.ndarray) -> Effects:
    task = job.task
    labels = task.scorer.checkpoint.settings.labels
    return Effects(found, sample.pairs, labels, resamples=task.resamples, draws=0, seed=task.seed)


def _changes(metrics: tuple[str, ...], effects: Effects) -> list[Changes]:
    """The changes of every row, the whole model's own (none) first."""
    defined = [metric for metric in metrics if effects.base(metric) is not None]
    return [changes_of(effects, row, defined) for row in range(effects.n_variants)]
