"""The rows of a plan for layers that read titles before the query comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qt_bert.errors import ArgumentError
from qt_bert.planning.grid import as_measured
from qt_bert.planning.offline.choosing import deciding_metric, largest_free
from qt_bert.planning.offline.costs import Costs, costs_of, runs_of
from qt_bert.planning.offline.layout import layout_of
from qt_bert.planning.offline.moved import OfflineTask, counts_of
from qt_bert.planning.offline.retrained import retrained_of
from qt_bert.planning.offline.speedup import Speedups, speedups
from qt_bert.planning.offline.titles import stored_titles
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress
from qt_bert.results.offline import NoRows, OfflinePlan, OfflineRow


def offline_plan(task: PlanTask) -> OfflinePlan:
    """A row a number of offline layers, the number chosen, and a retrained model beside its control.

    Finished sweeps and times lie in `task.work`. A model without rows has the reason for it. Raises
    GuardError where a block is not where it should be, ArgumentError as `retrained_of` does, and for
    retrained models where there are no rows to compare them with.
    """
    found = _job(task)
    if isinstance(found, OfflineTask):
        return _filled(found)
    if task.retrained is not None:
        raise ArgumentError(
            f"--offline {task.retrained.offline}: {task.scorer.checkpoint.name} can have no offline "
            f"layers ({found}); give the model that both were trained from"
        )
    return OfflinePlan(layers=task.form.layers, reason=found)


def _job(task: PlanTask) -> OfflineTask | NoRows:
    """What is to be done, or why there is nothing."""
    if task.scorer.checkpoint.offline is not None:
        return "offline"
    counts = counts_of(task.form.layers, task.effort.offline.rows)
    if not counts:
        return "one layer"
    layout = layout_of(task.scorer.tokenizer, task.whole_discovery)
    return "no room" if layout is None else OfflineTask(task, layout, counts)


def _filled(job: OfflineTask) -> OfflinePlan:
    task, layout = job.task, job.layout
    retrained = retrained_of(task)  # what may be refused comes first
    guards = job.check()
    with progress(runs_of(job), "offline layers", "runs") as shown:
        chosen_on = costs_of(job, job.discovery, role="discovery", block=False, shown=shown)
        measured = costs_of(job, job.validation, role="validation", block=True, shown=shown)
    rows = _rows(job, chosen_on, measured)
    metric = deciding_metric(chosen_on.positions)
    timed = speedups(job)
    return OfflinePlan(
        layers=task.form.layers,
        title_start=layout.offline.title_start,
        title_tokens=layout.offline.title_tokens,
        long_queries=layout.long,
        discovery=job.discovery.ref,
        validation=job.validation.ref,
        metric=metric,
        chosen=largest_free(rows, metric),
        retrain=task.form.layers // 2,
        positions=as_measured(measured.positions),
        rows=rows if timed is None else _with_speeds(rows, timed),
        titles=stored_titles(job.moved, [pair.title for pair in task.whole_discovery.pairs]),
        timed=None if timed is None else timed.timed,
        retrained=retrained,
        guards=guards,
    )


def _with_speeds(rows: Sequence[OfflineRow], timed: Speedups) -> tuple[OfflineRow, ...]:
    return tuple(replace(row, speed=one) for row, one in zip(rows, timed.ratios, strict=True))


def _rows(job: OfflineTask, chosen_on: Costs, measured: Costs) -> tuple[OfflineRow, ...]:
    return tuple(
        OfflineRow(
            layers=count,
            block=as_measured(measured.block[count]),
            both=as_measured(measured.both[count]),
            discovery=as_measured(chosen_on.both[count]),
        )
        for count in job.counts
    )
