"""Means over random draws, whose intervals hold the chance of the draws beside that of the queries."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value and its resampled values [R]; NaN where the metric is not defined."""

    value: float
    samples: FloatArray

    def less(self, other: Estimate) -> Estimate:
        """The difference, resample by resample."""
        return Estimate(self.value - other.value, self.samples - other.samples)

    def over(self, other: Estimate) -> Estimate:
        """The quotient; NaN where the divisor is not above 0."""
        below = np.array([other.value, *other.samples])
        above = np.array([self.value, *self.samples])
        found = np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)
        return Estimate(float(found[0]), found[1:])

    def times(self, factor: float) -> Estimate:
        """The same in another unit."""
        return Estimate(self.value * factor, self.samples * factor)


def mean_of(found: Sequence[Estimate]) -> Estimate:
    """The mean of some estimates, resample by resample; none where one of them has none."""
    count = min(len(one.samples) for one in found)
    samples = np.mean([one.samples[:count] for one in found], axis=0)
    return Estimate(float(np.mean([one.value for one in found])), samples)


def mean_over(stacked: FloatArray, seed: int, name: str) -> FloatArray:
    """Resamples [R] of the mean over draws, from those of each draw `stacked` [draws, R].

    Each resample draws among the draws, too, with a stream of its own for every `name`: neither
    that of the queries' resamples nor that of another set of draws. Resampling D draws shows
    (D − 1)/D of their variance, which is put right.
    """
    count = len(stacked)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    again = rng.integers(count, size=stacked.shape)
    drawn = np.take_along_axis(stacked, again, axis=0).mean(axis=0)
    every = stacked.mean(axis=0)
    return np.asarray(every + (drawn - every) * np.sqrt(count / max(count - 1, 1)))
