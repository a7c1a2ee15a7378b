"""What a budget will cost on new queries, free of the winner's luck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.ablation.families import MaskOf
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import balanced_halves
from qt_bert.errors import ArgumentError
from qt_bert.planning.runs import Changes, MetricChange, Removal, changes
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import RESAMPLES, interval_or_reason

# From readings of two halves' plans to what a new sample of queries will show.


NORMAL_95 = 1.959964
ANOTHER_PLAN = 1.5
"""Variance of one plan's true change against the mean of two others', in variances between plans."""


@dataclass(frozen=True)
class Prediction:
    """What a budget is expected to change of one metric.

    `value` with its 95 % interval `ci_low`, `ci_high`; what will be measured on a sample of new queries
    lies between `pi_low` and `pi_high` in 95 of 100 cases. None: no interval, for want of queries or
    resamples.
    """

    value: float
    ci_low: float | None
    ci_high: float | None
    pi_low: float | None
    pi_high: float | None


@dataclass(frozen=True, eq=False)
class Reading:
    """A metric's change under one plan on one half, `samples` [R] under resamples of its queries.

    Plans that are read on one half share its resamples.
    """

    value: float
    samples: FloatArray


Square = tuple[tuple[Reading, Reading], tuple[Reading, Reading]]
"""[plan][half]: the plan chosen on each half, read on each half."""


def predict(
    budgets: Sequence[Square], queries: tuple[int, int], n_new: Sequence[int]
) -> list[Prediction]:
    """One prediction for each budget of a grid.

    `queries` are those of the two halves, `n_new` those of the new sample that each budget will be
    measured on.
    """
    first, second = queries
    share = np.array([first, second]) / (first + second)
    plans = ANOTHER_PLAN * between_plans(budgets, share)
    found = []
    for square, new_queries in zip(budgets, n_new, strict=True):
        crossed = _crossed(square, share)
        low, high, _ = interval_or_reason(crossed.samples, min(queries))
        if low is None or high is None or crossed.samples.size < 2:
            found.append(Prediction(crossed.value, None, None, None, None))
            continue
        own = float(np.nanvar(crossed.samples, ddof=1))
        new = own * (first + second) / new_queries
        reach = NORMAL_95 * float(np.sqrt(own + new + plans))
        found.append(
            Prediction(crossed.value, low, high, crossed.value - reach, crossed.value + reach)
        )
    return found


def between_plans(budgets: Sequence[Square], share: FloatArray) -> float:
    """The variance between the true changes of plans chosen alike on other queries.

    Two such plans differ by d with E d² = 2σ² + the variance of d's error. Both are read on all
    queries; each was lucky on one half, which cancels. One pair of plans says little, so σ² is taken
    to be the same for all budgets of a grid: the mean over them, or 0 where that is negative.
    """
    found = []
    for square in budgets:
        one, other = (_weighted(*plan, share) for plan in square)
        if one.samples.size > 1:
            error = float(np.nanvar(one.samples - other.samples, ddof=1))
            found.append(((one.value - other.value) ** 2 - error) / 2)
    return max(float(np.mean(found)), 0.0) if found else 0.0


def _crossed(square: Square, share: FloatArray) -> Reading:
    """What the plans change on the half that did not choose them."""
    return _weighted(square[1][0], square[0][1], share)


def _weighted(on_first: Reading, on_second: Reading, share: FloatArray) -> Reading:
    """The mean of readings on the first and on the second half, by their queries."""
    return Reading(
        float(share @ [on_first.value, on_second.value]),
        share[0] * on_first.samples + share[1] * on_second.samples,
    )


# What a budget will cost on new queries, free of the winner's luck.
#
# What was chosen for its figure on some queries looks better on these than it is. So heads or
# layers are
# chosen on each half of the queries and read on the other half: every query counts once, under a
# choice
# that has not seen it (cross-fitting; Chernozhukov et al. 2018, "Double/debiased machine
# learning").


Choose = Callable[[Sequence[Pair]], Sequence[Removal]]
"""One half's pairs to one removal for each budget."""


def expected(
    scorer: Scorer,
    pairs: Sequence[Pair],
    budgets: Sequence[int],
    choose: Choose,
    *,
    mask: MaskOf,
    n_new: int | Sequence[int],
    metrics: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    work: Path | None = None,
    shown: Progress = silent,
) -> list[dict[str, Prediction]]:
    """For each budget: metric → what it is expected to change, measured on `n_new` new queries.

    `n_new` is a number for each budget, or one for all.
    `choose` is called with each half of the pairs. Both halves' removals are measured on both halves;
    the estimate is the mean of the two readings on the half that did not choose. Its error is that of
    a bootstrap over the queries of each half. The prediction interval adds in variance

    - the error of the new sample: the estimate's own, times queries here over `n_new` (Hahn and Meeker
      1991, "Statistical Intervals", section 4: s²(1/n + 1/m) for the mean of m further values), and
    - that the one plan of all queries is another than those of the halves (`between_plans`).

    `metrics`, `resamples`, `seed`, `work` and `shown` are as in `changes`. Raises ArgumentError where the
    pairs cannot be halved by query, or `choose` does not give one removal for each budget.
    """
    halves = balanced_halves(pairs)
    plans = [list(choose(half)) for half in halves]
    news = [n_new] * len(budgets) if isinstance(n_new, int) else list(n_new)
    sizes = [*map(len, plans), len(news)]
    if any(size != len(budgets) for size in sizes) or min(news, default=1) < 1:
        raise ArgumentError(
            f"{len(budgets)} budgets on {news} new queries, and {[len(plan) for plan in plans]} "
            "removals were chosen on the two halves: give one a budget, and at least one query"
        )
    measured = [
        changes(
            scorer,
            half,
            [*plans[0], *plans[1]],
            mask=mask,
            metrics=metrics,
            resamples=resamples,
            seed=seed + place,  # two halves of one size must not share their resamples
            work=work,
            name=f"half-{place}",
            shown=shown,
        )
        for place, half in enumerate(halves)
    ]
    first, second = (len({pair.query for pair in half}) for half in halves)
    return _predicted(measured, (first, second), news)


def _predicted(
    measured: Sequence[Sequence[Changes]], queries: tuple[int, int], n_new: Sequence[int]
) -> list[dict[str, Prediction]]:
    """From `measured` [half][plan × budget] to a prediction for each budget and metric."""
    budgets = len(n_new)
    found: list[dict[str, Prediction]] = [{} for _ in n_new]
    names = dict.fromkeys(metric for half in measured for one in half for metric in one)
    for metric in names:
        squares: dict[int, Square] = {}
        for budget in range(budgets):
            cells = [half[budget + plan * budgets] for plan in (0, 1) for half in measured]
            if all(metric in cell for cell in cells):
                a, b, c, d = (_reading(cell[metric]) for cell in cells)
                squares[budget] = ((a, b), (c, d))
        made = predict(list(squares.values()), queries, [n_new[budget] for budget in squares])
        for budget, prediction in zip(squares, made, strict=True):
            found[budget][metric] = prediction
    return found


def _reading(change: MetricChange) -> Reading:
    return Reading(change.absolute, change.samples)
