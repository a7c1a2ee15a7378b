"""Means over random draws, whose intervals hold the chance of the draws beside that of the queries."""

from __future__ import annotations

import zlib

import numpy as np

from qt_bert.evaluation.arrays import FloatArray


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
