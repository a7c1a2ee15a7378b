"""The forecast of a full training from short ones: a curve and its error.

A trial trains a shape for few steps and, of some shapes, for several times as many, each with its rate run
down to 0. The gap to the teacher shrinks as a power of the steps: from the long trial to the full training every
finished student (FINISHED, by `experiments/students`) keeps about the same share of it. So

    full = share · long,    and without a long trial    full = share · short,

each with its own share: the mean of the finished students', raised to the power that the steps ask for.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import t

from qt_bert.codec import decode
from qt_bert.results.frontier import Forecast


@dataclass(frozen=True, kw_only=True)
class Course:
    """The changes of one metric against the teacher: of a student after a short and a long trial, and after
    its full training of `steps[2]` steps; None where not trained."""

    steps: tuple[int, int, int]
    short: float
    long: float | None = None
    full: float | None = None

    def trial(self, longest: bool) -> tuple[int, float]:
        """Steps and change of the long, or of the short trial."""
        if longest and self.long is not None:
            return self.steps[1], self.long
        return self.steps[0], self.short


FINISHED = Path(__file__).with_name("finished.toml")
"""Students that were trained fully, and what their trials gave: by `experiments/students`."""


@dataclass(frozen=True, kw_only=True)
class FinishedStudent:
    """A student of `teacher`: metric → its changes after both trials and the full training, of so many `steps`."""

    teacher: str
    shape: str
    steps: tuple[int, int, int]
    changes: dict[str, tuple[float, float, float]]

    def course(self, metric: str) -> Course | None:
        """None for a metric that is not defined for the student."""
        if metric not in self.changes:
            return None
        short, long, full = self.changes[metric]
        return Course(steps=self.steps, short=short, long=long, full=full)


@cache
def finished_students() -> tuple[FinishedStudent, ...]:
    """The students in FINISHED."""
    stored = tomllib.loads(FINISHED.read_text(encoding="utf-8"))
    return decode(tuple[FinishedStudent, ...], stored["students"], FINISHED.name)


@dataclass(frozen=True, kw_only=True)
class Share:
    """The share of a trial's gap that is left after the full training: `mean` over the finished students, with the
    half-width `error` of its 95 % prediction interval. `gap`: their median one; `reach`: the mean logarithm of how
    many times as many steps the full training took."""

    mean: float
    error: float
    gap: float
    reach: float

    def forecast(self, steps: int, full: int, change: float) -> Forecast:
        """The change after `full` steps, from that after a trial of `steps`.

        The interval is not narrower than at the finished students' median gap, and wider for more steps than
        theirs.
        """
        farther = max(0.0, math.log(full / steps)) / self.reach
        value = change * self.mean**farther
        half = self.error * max(abs(change), self.gap) * max(1.0, farther)
        return Forecast(value=value, low=value - half, high=value + half)


def fit(courses: Sequence[Course], longest: bool = True) -> Share:
    """The share after the long trial, or else after the short one, from two finished students at least.

    Its error is that of a further student, by Student's t.
    """
    trials = [course.trial(longest) for course in courses]
    changes = np.array([change for _, change in trials])
    shares = np.array(
        [
            (course.full or 0.0) / change if change else 1.0
            for course, (_, change) in zip(courses, trials, strict=True)
        ]
    )
    spread = float(shares.std(ddof=1) * np.sqrt(1 + 1 / len(shares)))
    reached = [
        math.log(course.steps[2] / steps)
        for course, (steps, _) in zip(courses, trials, strict=True)
    ]
    return Share(
        mean=float(np.clip(shares.mean(), 0.0, 1.0)),
        error=float(t.ppf(0.975, len(shares) - 1)) * spread,
        gap=float(np.median(np.abs(changes))),
        reach=float(np.mean(reached)),
    )


def forecast(finished: Sequence[Course], course: Course) -> Forecast:
    """The change of a student after its full training, from that of the others after theirs."""
    longest = course.long is not None
    steps, change = course.trial(longest)
    return fit(finished, longest).forecast(steps, course.steps[2], change)
