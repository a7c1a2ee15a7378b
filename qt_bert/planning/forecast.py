"""The forecast of a full training from short ones: a curve, its error, and its leave-one-out test.

A trial trains a shape for few steps and, of some shapes, for several times as many, each with its rate run
down to 0. In the logarithm of the steps the gain shrinks. So after T steps the change against the teacher is

    long + realised · r · (long − short),    r = log(T / long steps) / log(long steps / short steps)

where `realised`, between 0 (no further gain) and 1 (a straight line in the logarithm), comes from finished
students. A shape without a long trial closes the share `closed` of its short trial's change first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t

from qt_bert.results.frontier import Forecast


@dataclass(frozen=True, kw_only=True)
class Course:
    """The changes of one metric against the teacher: of a student after a short and a long trial, and after
    its full training of `steps[2]` steps; None where not trained."""

    steps: tuple[int, int, int]
    short: float
    long: float | None = None
    full: float | None = None

    @property
    def reach(self) -> float:
        """r of the module's formula; 0 where the full training is no longer than the long trial."""
        short, long, full = self.steps
        return max(0.0, math.log(full / long) / math.log(long / short))


ASSUMED = {"accuracy": 0.04, "qwk": 0.05}
"""Half-widths of the interval until LEAST finished students measure the error; of ρ and orders .03."""

SHORT_ALONE = 1.5
"""How much wider the assumed interval is without a long trial."""

LEAST = 3
"""Finished students from which the error is measured, each forecast from the others."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """`realised` and `closed` of the module's formula; `errors` (with, without a long trial) are the
    half-widths of the 95 % interval."""

    realised: float
    closed: float
    errors: tuple[float, float]

    def value(self, course: Course) -> float:
        """The change after the full training."""
        long = course.short * (1 - self.closed) if course.long is None else course.long
        return long + self.realised * course.reach * (long - course.short)

    def forecast(self, course: Course) -> Forecast:
        """The change after the full training, with its prediction interval."""
        value, half = self.value(course), self.errors[course.long is None]
        return Forecast(value=value, low=value - half, high=value + half)


def fit(courses: Sequence[Course], metric: str) -> Curve | None:
    """The curve of one metric: `closed` from all courses with a long trial, `realised` and the error from
    the finished ones. None without a finished one.

    Both are least squares through the origin, bounded to 0 … 1. The error is that of forecasting each
    finished student from the others, by Student's t; with fewer than LEAST it is ASSUMED.
    """
    finished = [course for course in courses if course.full is not None and course.long is not None]
    if not finished:
        return None
    curve = _fitted(courses, finished)
    if len(finished) < LEAST:
        half = ASSUMED.get(metric, 0.03)
        return replace(curve, errors=(half, SHORT_ALONE * half))
    reach = float(t.ppf(0.975, len(finished) - 1) * np.sqrt(1 + 1 / len(finished)))
    squares = []
    for course in finished:
        others = [other for other in finished if other is not course]
        left = _fitted([other for other in courses if other is not course], others)
        unfinished = (course, replace(course, long=None))
        squares.append([(left.value(known) - (course.full or 0.0)) ** 2 for known in unfinished])
    with_long, without = reach * np.sqrt(np.mean(squares, axis=0))
    return replace(curve, errors=(float(with_long), float(without)))


def _fitted(courses: Sequence[Course], finished: Sequence[Course]) -> Curve:
    both = [(c.short, c.long) for c in courses if c.long is not None]
    closed = _slope([(-short, long - short) for short, long in both])
    gains = [
        (c.reach * ((c.long or 0.0) - c.short), (c.full or 0.0) - (c.long or 0.0)) for c in finished
    ]
    return Curve(realised=_slope(gains), closed=closed, errors=(0.0, 0.0))


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """The least-squares slope through the origin of (x, y), within 0 … 1; 0 where all x are 0."""
    x, y = np.array(points).T
    square = float(x @ x)
    return min(1.0, max(0.0, float(x @ y) / square)) if square else 0.0


def leave_one_out(finished: Sequence[Course], metric: str) -> list[tuple[Forecast, float]]:
    """Each finished student's change as the curve of all others forecasts it, and as it was measured.

    Empty for fewer than two.
    """
    rows = []
    for course in finished:
        curve = fit([other for other in finished if other is not course], metric)
        if curve is not None and course.full is not None:
            rows.append((curve.forecast(course), course.full))
    return rows
