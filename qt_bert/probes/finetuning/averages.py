"""Means over queries, with the interval and the test that go with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import bootstrap_weights
from qt_bert.probes.common.naming import one_sided_p

PERCENT = 0.01
"""Weights and their changes are shown in hundredths of a token's attention."""


@dataclass(frozen=True, eq=False)
class Average:
    """A mean over queries and its resampled values [R]; p of a mean above 0 and of one below.

    `n_queries` counts the queries that say something; `value` is NaN where none does.
    """

    value: float
    samples: FloatArray
    p_above: float
    p_below: float
    n_queries: int


def average(per_query: FloatArray, resamples: int, seed: int) -> Average:
    """The mean of `per_query` [queries], NaN where a query says nothing; p by a t-test."""
    known = np.isfinite(per_query)
    filled = np.where(known, per_query, 0.0)
    chunks = [np.empty(0)]
    for weights in bootstrap_weights(len(known), resamples, seed, width=len(known)):
        with np.errstate(invalid="ignore"):
            chunks.append((weights @ filled) / (weights @ known))
    samples = np.concatenate(chunks) if known.sum() > 1 else np.empty(0)
    return Average(
        float(filled.sum() / known.sum()) if known.any() else float("nan"),
        samples,
        float(one_sided_p(per_query)),
        float(one_sided_p(-per_query)),
        int(known.sum()),
    )


def mean_of_queries(per_query: FloatArray) -> FloatArray:
    """Means over the queries that say something [queries, …] → […]; NaN where none does."""
    known = np.isfinite(per_query)
    sums = np.where(known, per_query, 0.0).sum(axis=0)
    counts = known.sum(axis=0)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
