"""How far the grade falls when a good title is shuffled, as a share of the way to grade 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.shuffles import shuffle_characters
from qt_bert.probes.order.grades import Ends
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.intervals import bootstrap_weights, percentile_interval
from qt_bert.stats.judgements import index_queries

Quantity = Literal["original", "shuffled", "low", "sensitivity", "reach", "ratio"]


class Row(NamedTuple):
    """One text of the sweep: made of which pair, and as what."""

    pair: Pair
    title: str
    part: Literal["original", "shuffled", "low"]


@dataclass(frozen=True)
class Texts:
    """High pairs as they are and shuffled, and low pairs as they are; `ineligible` titles have no
    other order and are left out."""

    rows: tuple[Row, ...]
    ineligible: int

    @classmethod
    def of(cls, pairs: Iterable[Pair], at: Ends, *, draws: int, seed: int) -> Texts:
        """`draws` shuffled titles for each high pair."""
        rng = np.random.default_rng(seed)
        rows: list[Row] = []
        ineligible = 0
        for pair in pairs:
            if pair.grades in at.low:
                rows.append(Row(pair, pair.title, "low"))
            elif pair.grades in at.high:
                drawn = [shuffle_characters(pair.title, rng) for _ in range(draws)]
                shuffled = [Row(pair, title, "shuffled") for title in drawn if title]
                ineligible += not shuffled
                if shuffled:
                    rows += [Row(pair, pair.title, "original"), *shuffled]
        return cls(tuple(rows), ineligible)

    @property
    def pairs(self) -> list[Pair]:
        """Every row as a pair without a label, which a shuffled title no longer has."""
        return [replace(row.pair, title=row.title, grades=None, label=None) for row in self.rows]

    def count(self, part: str) -> int:
        return sum(row.part == part for row in self.rows)


class Sensitivity:
    """S = E[g | original] − E[g | shuffled], R = E[g | original] − E[g | low], and S / R.

    `grades` [variants, rows] are expected grades; row 0 of the variants is the plain model. A mean
    is one over queries of the means over a query's rows. S / R is NaN for a variant under which the
    interval of R does not lie above 0. Resamples of the queries are the same for every variant.
    """

    def __init__(self, grades: FloatArray, texts: Texts, *, resamples: int, seed: int) -> None:
        self.queries, self.n_queries = index_queries([row.pair.query for row in texts.rows])
        self._resamples, self._seed = resamples, seed
        self._by_query = {
            part: _query_means(
                grades, self.queries, np.array([r.part == part for r in texts.rows]), self.n_queries
            )
            for part in ("original", "shuffled", "low")
        }

    def values(self, quantity: Quantity, variants: Sequence[int]) -> FloatArray:
        """[variants]."""
        return self._of(quantity, variants, np.ones((1, self.n_queries)))[:, 0]

    def resampled(self, quantity: Quantity, variants: Sequence[int]) -> FloatArray:
        """[variants, R]."""
        return self._of(quantity, variants, self._weights)

    @property
    def has_intervals(self) -> bool:
        """Whether there are resamples, and queries to resample."""
        return len(self._weights) > 0

    @cached_property
    def reaches(self) -> BoolArray:
        """Whether the interval of R lies above 0 [variants]."""
        reaches = self.resampled("reach", range(len(self._by_query["low"])))
        ends = [percentile_interval(samples) for samples in reaches]
        return np.array([one is not None and one[0] > 0 for one in ends], dtype=bool)

    @cached_property
    def _weights(self) -> FloatArray:
        n = self.n_queries
        if n < 2 or not self._resamples:
            return np.empty((0, n))  # a single query cannot be resampled
        return np.concatenate(list(bootstrap_weights(n, self._resamples, self._seed, width=n)))

    def _of(self, quantity: Quantity, variants: Sequence[int], weights: FloatArray) -> FloatArray:
        if quantity == "sensitivity":
            return self._gap("shuffled", variants, weights)
        if quantity == "reach":
            return self._gap("low", variants, weights)
        if quantity == "ratio":
            share = ratio(
                self._gap("shuffled", variants, weights), self._gap("low", variants, weights)
            )
            return np.where(self.reaches[list(variants)][:, None], share, np.nan)
        return self._mean(quantity, variants, weights)

    def _gap(self, part: Quantity, variants: Sequence[int], weights: FloatArray) -> FloatArray:
        return self._mean("original", variants, weights) - self._mean(part, variants, weights)

    def _mean(self, part: Quantity, variants: Sequence[int], weights: FloatArray) -> FloatArray:
        values = self._by_query[part][list(variants)]
        known = np.isfinite(values)
        return ratio(np.where(known, values, 0.0) @ weights.T, known @ weights.T)


def _query_means(
    grades: FloatArray, queries: IntArray, wanted: np.ndarray, n_queries: int
) -> FloatArray:
    """Means over the wanted rows of each query [variants, queries]; NaN for a query without any."""
    sums = np.zeros((n_queries, len(grades)))
    np.add.at(sums, queries[wanted], grades.T[wanted])
    counts = np.bincount(queries[wanted], minlength=n_queries).astype(np.float64)
    return ratio(sums, counts[:, None]).T
