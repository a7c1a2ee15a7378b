"""Array types, and the small sums and means that metrics are made of."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Element-wise quotient; NaN (never a warning) where the denominator is zero."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    undefined = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=undefined, where=denominator != 0)
    return undefined


def mean_known(values: FloatArray) -> FloatArray:
    """The mean over the last axis without NaN; NaN where all are."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1).astype(np.float64))


def sum_by(group: IntArray, values: npt.NDArray[np.generic], n_groups: int) -> FloatArray:
    """Sums of `values` [n] over equal `group` [n]: float64 [n_groups]."""
    sums = np.bincount(group, weights=values.astype(np.float64), minlength=n_groups)
    return sums.astype(np.float64, copy=False)


def count_cells(group: IntArray, cell: IntArray, n_groups: int, n_cells: int) -> FloatArray:
    """How often each `cell` occurs in each `group`: float64 [n_groups, n_cells]."""
    flat = np.bincount(group * n_cells + cell, minlength=n_groups * n_cells)
    return flat.reshape(n_groups, n_cells).astype(np.float64)


def expectation(probabilities: FloatArray, values: FloatArray) -> FloatArray:
    """Σ p · value of each row [n, K] -> [n], to twelve decimals: what is equal on paper ties."""
    return np.round((probabilities * values).sum(axis=1), 12)


def mid_ranks(values: FloatArray) -> FloatArray:
    """The rank of each value from 1 [n], ties at their mean, as scipy.stats, slow to import."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def fractional_ranks(values: FloatArray) -> FloatArray:
    """Mid-rank of each value over n, in (0, 1] [n]."""
    return mid_ranks(values) / len(values)
