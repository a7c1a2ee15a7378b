"""From readings of two halves' plans to what a new sample of queries will show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import interval_or_reason

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
