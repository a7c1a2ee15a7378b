"""Means over random draws, with intervals that resample the queries and the draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.redundant.study import Sweep

POINT = 0.01
"""One accuracy point; figures of this study are in points."""


@dataclass(frozen=True, eq=False)
class Average:
    """A mean change in points, and its resampled values [R]."""

    value: float
    samples: FloatArray

    def less(self, other: Average) -> Average:
        """The difference, resample by resample."""
        return Average(self.value - other.value, self.samples - other.samples)


def steps_of(sweep: Sweep, family: str) -> dict[float, list[int]]:
    """Share of all heads in percent → the variants of `family` that leave out so many."""
    found: dict[float, list[int]] = {}
    for row in sweep.by_family.get(family, ()):
        share = float(sweep.name(row).rpartition(":")[2].partition("%")[0])
        found.setdefault(share, []).append(row)
    return dict(sorted(found.items()))


def mean_over_draws(sweep: Sweep, rows: Sequence[int], seed: int) -> Average:
    """The mean change over draws; each resample draws among the draws, too."""
    changes = sweep.resampled(rows) / POINT
    drawn = np.random.default_rng(seed).integers(len(rows), size=changes.shape)
    values = sweep.change(map(sweep.name, rows))
    return Average(
        float(values.mean()) / POINT, np.take_along_axis(changes, drawn, axis=0).mean(axis=0)
    )


def tail(samples: FloatArray, null: float) -> float | None:
    """One-sided p of a value above `null`: the share of resamples that are not, none counting as one."""
    if not samples.size:
        return None
    return float((1 + np.sum(~(samples > null))) / (1 + samples.size))
