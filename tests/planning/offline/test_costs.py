"""What rows cost: against offline models run alone, and nothing where nothing is mixed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.effects import Effects
from qt_bert.planning.offline import Costs, OfflineTask, costs_of, runs_of
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from tests.planning.offline.conftest import JobOf


def on_validation(job: OfflineTask, shown: Progress = silent) -> Costs:
    return costs_of(job, job.validation, role="validation", block=True, shown=shown)


def change(job: OfflineTask, other: Scorer, metric: str) -> float | None:
    """The change of a metric where `other` stands in for the model."""
    sample = job.validation
    both = np.stack([one.logits(sample.texts) for one in (job.task.scorer, other)])
    labels = job.task.scorer.checkpoint.settings.labels
    return Effects(both, sample.pairs, labels, resamples=0, draws=0).change(1, metric)


@pytest.mark.parametrize(("family", "labels"), [("bert", 5), ("xlm-roberta", 5), ("bert", 1)])
def test_both_are_the_offline_model_of_so_many_layers(
    job_of: JobOf, family: str, labels: int
) -> None:
    job, metric = job_of(family, labels=labels), "spearman"
    found = on_validation(job)
    assert list(found.both) == list(found.block) == [1, 2]
    assert found.positions[metric].absolute == pytest.approx(change(job, job.moved, metric))
    for layers, one in found.both.items():
        assert one[metric].absolute == pytest.approx(change(job, job.reading(layers), metric))
    assert found.both[1][metric].absolute != found.block[1][metric].absolute


def test_layers_that_mix_nothing_cost_nothing(job_of: JobOf, unmixed: Path) -> None:
    found = on_validation(job_of(checkpoint=unmixed))
    for one in (found.positions, *(way[n] for way in (found.block, found.both) for n in (1, 2))):
        for metric in ("accuracy", "qwk", "spearman"):
            assert (one[metric].absolute, one[metric].ci_low, one[metric].ci_high) == (0, 0, 0)
    assert found.both[3]["spearman"].absolute != 0


def test_every_run_is_counted_and_none_is_run_twice(job_of: JobOf) -> None:
    class Counter:
        runs = 0

        def advance(self, amount: int = 1, note: str = "") -> None:
            self.runs += amount

    job, counter = job_of(), Counter()
    costs_of(job, job.discovery, role="discovery", block=False, shown=counter)
    first = on_validation(job, counter)
    assert counter.runs == runs_of(job)
    stored = {path: path.stat().st_mtime_ns for path in job.task.work.rglob("logits.npy")}
    assert len(stored) == 3
    assert on_validation(job).both[1]["qwk"].absolute == first.both[1]["qwk"].absolute
    assert {path: path.stat().st_mtime_ns for path in stored} == stored


def test_the_block_is_measured_only_where_it_is_asked_for(job_of: JobOf) -> None:
    job = job_of()
    found = costs_of(job, job.discovery, role="discovery", block=False, shown=silent)
    assert found.block == {} and set(found.both) == {1, 2}
