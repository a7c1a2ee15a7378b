"""Which heads have a function: a score above its null, over all heads, and large enough."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation import q_values
from qt_bert.evaluation.arrays import BoolArray, FloatArray
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


def name_heads(score: FloatArray, p: FloatArray, weight: FloatArray, *, least: float) -> Named:
    """Heads with score ≥ `least`, q < 0.05 over all entries of `p`, and enough `weight`.

    `score` and `weight` [layers, heads]: the score, and the share of its attention that a head gives
    to the texts asked about. `p` [layers, heads] or [layers, heads, choices], where a head may
    be named for any of several choices (offsets, directions) and the smallest q counts.
    """
    tested = np.asarray(q_values(list(p.ravel())), dtype=np.float64).reshape(p.shape)
    q = tested if p.ndim == 2 else tested.min(axis=-1)
    smallest = p if p.ndim == 2 else p.min(axis=-1)
    with np.errstate(invalid="ignore"):
        named = (score >= least) & (q < FALSE_DISCOVERY_RATE) & (weight >= LEAST_WEIGHT)
    return Named(score, smallest, q, np.asarray(named))


def ranked(score: FloatArray) -> list[Head]:
    """All heads, best score first; NaN last, equals in the order of layers."""
    order = np.argsort(-np.where(np.isnan(score), -np.inf, score).ravel(), kind="stable")
    return [Head(int(place) // score.shape[1], int(place) % score.shape[1]) for place in order]


@dataclass(frozen=True)
class ComesBack:
    """How much of a chosen set comes back over resampled queries, as a share of it.

    `chance` is what sets of as many random heads share on average.
    """

    share: float
    chance: float


def comes_back(
    per_query: FloatArray, chosen: Sequence[Head], *, resamples: int = 200, seed: int = 0
) -> ComesBack | None:
    """Choose the best len(chosen) heads by mean score in each resample; None for an empty set.

    `per_query` [queries, layers, heads], NaN where a query says nothing.
    """
    if not chosen:
        return None
    layers_heads = per_query.shape[1:]
    rng = np.random.default_rng(seed)
    places = {head.layer * layers_heads[1] + head.head for head in chosen}
    flat = per_query.reshape(len(per_query), -1)
    known, filled = np.isfinite(flat), np.nan_to_num(flat)
    shares = []
    for _ in range(resamples):
        weights = np.bincount(rng.integers(len(flat), size=len(flat)), minlength=len(flat))
        counts = weights @ known
        means = np.divide(
            weights @ filled, counts, out=np.full(counts.shape, -np.inf), where=counts > 0
        )
        best = np.argsort(-means, kind="stable")[: len(places)]
        shares.append(len(places.intersection(best.tolist())) / len(places))
    return ComesBack(float(np.mean(shares)), len(places) / flat.shape[1])


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
