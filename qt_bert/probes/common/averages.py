"""Means over queries, with the resamples of their intervals and their t-tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, ratio
from qt_bert.evaluation.intervals import bootstrap_weights
from qt_bert.probes.common.naming import one_sided_p


@dataclass(frozen=True, eq=False)
class Average:
    """A mean over the queries that say something, `known` [queries], and its resampled values [R].

    `value` is NaN where none does; there are no resamples of fewer than two.
    """

    value: float
    samples: FloatArray
    known: FloatArray

    @property
    def n_queries(self) -> int:
        """How many queries say something."""
        return len(self.known)

    @property
    def p_above(self) -> float:
        """One-sided p of a mean above 0, by a t-test over queries."""
        return float(one_sided_p(self.known))

    @property
    def p_below(self) -> float:
        """One-sided p of a mean below 0."""
        return float(one_sided_p(-self.known))

    def over(self, other: Average) -> Average:
        """This as a share of `other`, resample by resample; NaN where `other` is not above 0."""
        value = self.value / other.value if other.value > 0 else float("nan")
        with np.errstate(invalid="ignore", divide="ignore"):
            samples = np.where(other.samples > 0, self.samples / other.samples, np.nan)
        return Average(value, samples, self.known)


def average(per_query: FloatArray, resamples: int, seed: int) -> Average:
    """The mean of `per_query` [queries], NaN where a query says nothing.

    Averages of one length and of the same known queries are resampled alike.
    """
    known = per_query[np.isfinite(per_query)]
    if not known.size:
        return Average(float("nan"), np.empty(0), known)
    chunks = [np.empty(0)]
    if known.size > 1:
        drawn = bootstrap_weights(known.size, resamples, seed, width=known.size)
        chunks += [weights @ known / known.size for weights in drawn]
    return Average(float(known.mean()), np.concatenate(chunks), known)


def resampled_ratio(sums: FloatArray, counts: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Σ sums / Σ counts of `sums` and `counts` [units] under resampled units [R]; NaN where 0 / 0."""
    drawn = bootstrap_weights(len(counts), resamples, seed, width=len(counts))
    chunks = [ratio(weights @ sums, weights @ counts) for weights in drawn]
    return np.concatenate([np.empty(0), *chunks])


def means(per_query: FloatArray) -> FloatArray:
    """Means over queries [queries, …] → […], NaN where no query says anything."""
    known = np.isfinite(per_query)
    sums, counts = np.where(known, per_query, 0.0).sum(axis=0), known.sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))
