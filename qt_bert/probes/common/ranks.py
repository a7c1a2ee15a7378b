"""Rank correlation of resampled values."""

from __future__ import annotations

import numpy as np

from qt_bert.evaluation.arrays import FloatArray


def rank_correlation(one: FloatArray, other: FloatArray) -> FloatArray:
    """Spearman's ρ of [points, R] with [points, R], column by column [R]; NaN where it is not defined."""
    from scipy.stats import rankdata

    ranks = [rankdata(each, axis=0) for each in (one, other)]
    centred = [each - each.mean(axis=0) for each in ranks]
    norms = np.prod([np.sqrt(np.square(each).sum(axis=0)) for each in centred], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((centred[0] * centred[1]).sum(axis=0) / norms)
