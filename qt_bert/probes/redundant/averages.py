"""Means over random draws, with intervals that resample the queries and the draws."""

from __future__ import annotations

import zlib
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
    """The mean change over draws; each resample draws among the draws, too.

    Resampling D draws shows (D − 1)/D of their variance, which is put right.
    """
    changes = sweep.resampled(rows) / POINT
    count = len(rows)
    # A stream of its own: neither that of the queries' resamples nor that of another set of draws.
    rng = np.random.default_rng([seed, zlib.crc32(sweep.name(rows[0]).encode())])
    drawn = np.take_along_axis(changes, rng.integers(count, size=changes.shape), axis=0).mean(
        axis=0
    )
    every = changes.mean(axis=0)
    samples = every + (drawn - every) * np.sqrt(count / max(count - 1, 1))
    return Average(float(sweep.change(map(sweep.name, rows)).mean()) / POINT, samples)
