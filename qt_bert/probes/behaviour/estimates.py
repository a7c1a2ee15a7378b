"""Means over cases whose chance is that of the queries: resamples, and tests by exchanged titles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.probes.naming import resampled_ratio
from qt_bert.stats.arrays import FloatArray, sum_by
from qt_bert.stats.estimate import chunk_sizes
from qt_bert.stats.intervals import interval_or_reason
from qt_bert.stats.judgements import index_queries

SWAPS = 9_999
ROUNDING = 1e-9
"""A sum that is smaller by this share counts as equal: other orders of summing round otherwise."""


@dataclass(frozen=True, eq=False)
class Mean:
    """A mean over `n` cases of `n_queries` queries; NaN, without resamples, where there is none.

    `samples` [R] are its values under resampled queries, none of fewer than two. `p` is two-sided,
    by exchanging what is compared within whole queries.
    """

    value: float
    samples: FloatArray
    p: float | None
    n: int
    n_queries: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The central 95 % of the resamples."""
        low, high, _ = interval_or_reason(self.samples, self.n_queries)
        return None if low is None or high is None else (low, high)


def mean(
    values: FloatArray, queries: Sequence[str], *, resamples: int, seed: int, swaps: int = SWAPS
) -> Mean:
    """The mean of `values` [n], of cases that belong to `queries` [n].

    Exchanging the two titles of a query's cases (a model with heads and without; right and wrong)
    turns the sign of its values; p compares the mean with those of `swaps` such draws, 0 for no
    test.
    """
    if not len(values):
        return Mean(float("nan"), np.empty(0), None, 0, 0)
    index, count = index_queries(queries)
    sums, sizes = (sum_by(index, one, count) for one in (values, np.ones(len(values))))
    samples = resampled_ratio(sums, sizes, resamples, seed) if count > 1 else np.empty(0)
    p = float(swap_p(sums[:, None], swaps, seed)[0]) if swaps else None
    return Mean(float(values.mean()), samples, p, len(values), count)


def swap_p(sums: FloatArray, swaps: int, seed: int) -> FloatArray:
    """Two-sided p of each cell's total over queries [cells], from the queries' sums [queries, cells].

    Under the null either sign is as likely, query by query; all cells see the same draws.
    p = (1 + draws at least as large) / (1 + draws).
    """
    observed = np.abs(sums.sum(axis=0))
    rng = np.random.default_rng(seed)
    hits = np.zeros(sums.shape[1])
    for rows in chunk_sizes(swaps, sum(sums.shape)):
        signs = 1.0 - 2.0 * rng.integers(2, size=(rows, len(sums)))
        hits += (np.abs(signs @ sums) >= observed * (1 - ROUNDING)).sum(axis=0)
    return np.asarray((1 + hits) / (1 + swaps))
