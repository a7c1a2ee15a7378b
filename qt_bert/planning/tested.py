"""The one plan, tested without searching: the pruned model beside the whole one on other pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.planning.choosing import Chosen
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.progress import Progress, progress
from qt_bert.results.plan_evidence import Measured, PlanTest
from qt_bert.scoring.bulk import Scorer


def plan_tests(task: PlanTask, chosen: Chosen) -> tuple[PlanTest, ...]:
    """The chosen plan on validation and on each held-out file, its weights really removed."""
    smaller = task.pruned(chosen.kept, chosen.units)
    samples = [task.validation, *task.held_out]
    total = 2 * sum(len(one.pairs) for one in samples)
    with progress(total, "testing the plan", "pairs") as shown:
        return tuple(
            PlanTest(
                role="validation" if sample is task.validation else "held out",
                pairs=sample.ref,
                coarse=sample.coarse,
                measured=dict(_measured(task, smaller, sample, shown)),
            )
            for sample in samples
        )


def _measured(
    task: PlanTask, smaller: Scorer, sample: Sample, shown: Progress
) -> Iterator[tuple[str, Measured]]:
    """Each metric that is defined on these pairs, and its paired change."""
    both = [one.fresh().logits(sample.texts, shown) for one in (task.scorer, smaller)]
    labels = task.scorer.checkpoint.settings.labels
    effects = Effects(
        np.stack(both), sample.pairs, labels, resamples=task.resamples, draws=0, seed=task.seed
    )
    for metric in task.metrics:
        base, value = effects.base(metric), effects.value(1, metric)
        if base is None or value is None:
            continue
        low, high = effects.interval(effects.resampled(1, metric)) or (None, None)
        yield (
            metric,
            Measured(base=base, value=value, change=value - base, ci_low=low, ci_high=high),
        )
