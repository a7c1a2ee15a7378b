"""Which heads have a function: a score above its null, over all heads, and large enough."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation import q_values
from qt_bert.evaluation.arrays import BoolArray, FloatArray, IntArray
from qt_bert.evaluation.multiplicity import FALSE_DISCOVERY_RATE

LEAST_WEIGHT = 0.05
"""A head that gives the texts asked about less of its attention is not named."""


@dataclass(frozen=True, eq=False)
class Named:
    """Scores and tests of every head [layers, heads]; `named` are those that pass all three bars."""

    score: FloatArray
    p: FloatArray
    q: FloatArray
    named: BoolArray

    def heads(self) -> list[Head]:
        """The named heads, best score first."""
        return [head for head in ranked(self.score) if self.named[head]]


def one_sided_p(excess: FloatArray) -> FloatArray:
    """p of a mean over queries above 0, by a t-test: [queries, …] → […].

    `excess` is a query's score less its null's mean; NaN where a query says nothing. Where fewer
    than two queries speak, or all say the same, there is no test and p is 1.
    """
    from scipy.stats import ttest_1samp

    speaking = np.isfinite(excess).sum(axis=0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of heads that too few queries speak of: p is 1 for them
        p = ttest_1samp(excess, 0.0, axis=0, nan_policy="omit", alternative="greater").pvalue
    p = np.ma.filled(np.ma.asarray(p, dtype=np.float64), np.nan)
    return np.asarray(np.where((speaking > 1) & np.isfinite(p), p, 1.0))


def name_heads(
    score: FloatArray,
    p: FloatArray,
    weight: FloatArray,
    *,
    least: float,
    choice: IntArray | None = None,
) -> Named:
    """Heads with score ≥ `least`, q < 0.05 over all entries of `p`, and enough `weight`.

    `score` and `weight` [layers, heads]: the score, and the share of its attention that a head gives
    to the texts asked about. `p` [layers, heads] or [layers, heads, choices], where a head may
    be named for any of several choices (offsets, directions): then `choice` [layers, heads] says
    which of them the score is of, and that one's p and q count; without it the smallest.
    """
    tested = np.asarray(q_values(list(p.ravel())), dtype=np.float64).reshape(p.shape)
    own_p, own_q = _chosen(p, choice), _chosen(tested, choice)
    with np.errstate(invalid="ignore"):
        named = (score >= least) & (own_q < FALSE_DISCOVERY_RATE) & (weight >= LEAST_WEIGHT)
    return Named(score, own_p, own_q, np.asarray(named))


def _chosen(values: FloatArray, choice: IntArray | None) -> FloatArray:
    """Of [layers, heads, choices] each head's own entry, or the smallest; [layers, heads] as it is."""
    if values.ndim == 2:
        return values
    if choice is None:
        return np.asarray(values.min(axis=-1))
    return np.asarray(np.take_along_axis(values, choice[..., None], axis=-1)[..., 0])


def ranked(score: FloatArray) -> list[Head]:
    """All heads, best score first; NaN last, equals in the order of layers."""
    order = np.argsort(-np.where(np.isnan(score), -np.inf, score).ravel(), kind="stable")
    return [Head(int(place) // score.shape[1], int(place) % score.shape[1]) for place in order]


def by_query(values: FloatArray, queries: Sequence[str]) -> FloatArray:
    """Means over the pairs of each query [pairs, …] → [queries, …], NaN pairs left out."""
    numbers: dict[str, int] = {}
    index = np.array([numbers.setdefault(query, len(numbers)) for query in queries], dtype=np.int64)
    known = np.isfinite(values)
    sums = np.zeros((len(numbers), *values.shape[1:]))
    counts = np.zeros_like(sums)
    np.add.at(sums, index, np.where(known, values, 0.0))
    np.add.at(counts, index, known)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
