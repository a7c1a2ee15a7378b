"""How much more of its attention every head gives a neighbour than another character, by query.

`heads_of_query_title_bert`, 2.3, leaves out seven suspected heads and does not say how they were found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.models.heads import Head
from qt_bert.probes.naming import (
    LEAST_WEIGHT,
    Named,
    Rule,
    by_mean,
    means,
    name_heads,
    one_sided_p,
    ranked,
)
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio

LEAST_LIFT = 2.0
"""A head is named where a neighbour gets at least so many times what another character gets."""


@dataclass(frozen=True, eq=False)
class OrderScores:
    """Scores of every head over a sample.

    `sums` [queries, layers, heads, offsets + 1, 2] are those of `maps.offset_sums` over the pairs of
    each query, `identities` [queries, layers, heads] the identity index, NaN where a query has none.
    `ineligible` pairs have a title of which every order is the same; `compared` are those whose
    maps could be set beside each other; `coverage` is the share of Chinese characters that are
    tokens of their own in the texts as they were.
    """

    sums: FloatArray
    identities: FloatArray
    pairs: int
    ineligible: int
    compared: int
    coverage: float

    @property
    def n_queries(self) -> int:
        """How many queries the pairs have."""
        return len(self.sums)

    @cached_property
    def lift(self) -> FloatArray:
        """Weight to a neighbour over that to another character [layers, heads, offsets].

        A ratio of sums over all rows; NaN where there are none.
        """
        return self._lift(np.ones(self.n_queries))

    @cached_property
    def per_query(self) -> FloatArray:
        """`lift` of each query alone [queries, layers, heads, offsets]."""
        return ratio(self.sums[..., :-1, 0], self.sums[..., :-1, 1])

    @cached_property
    def identity(self) -> FloatArray:
        """Mean identity index over the queries [layers, heads]; below 0 a map follows places."""
        return means(self.identities)

    @cached_property
    def weight(self) -> FloatArray:
        """The attention a character gives the others of its text [layers, heads]."""
        total = self.sums[..., -1, :].sum(axis=0)
        return np.nan_to_num(ratio(total[..., 0], total[..., 1]))

    @cached_property
    def score(self) -> FloatArray:
        """The largest lift [layers, heads]; NaN where there is none."""
        return _largest(self.lift)

    @cached_property
    def offset(self) -> IntArray:
        """The place in `OFFSETS` of the largest lift [layers, heads]."""
        return np.where(np.isnan(self.lift), -np.inf, self.lift).argmax(axis=-1)

    @cached_property
    def follow_places(self) -> BoolArray:
        """The heads that order heads are chosen among: a lift, and an identity index below 0."""
        return np.asarray((self.score > 0) & (self.identity < 0))

    def named(self) -> Named:
        """Heads whose lift is at least 2, and above 1 by a test over queries, heads and offsets."""
        p = one_sided_p(self.per_query - 1.0)
        return name_heads(self.score, p, self.weight, least=LEAST_LIFT, choice=self.offset)

    def best(self, k: int) -> list[Head]:
        """The k best heads whose maps follow places; fewer where there are fewer."""
        score = _of_places(self.score, self.identity)
        return [head for head in ranked(score) if score[head] > 0][:k]

    @property
    def rule(self) -> Rule:
        """The rule of `best`, for any weights of the queries."""
        identity = by_mean(self.identities)
        return lambda weights: _of_places(_largest(self._lift(weights)), identity(weights))

    @property
    def named_rule(self) -> Rule:
        """The lift alone, of heads with enough weight."""
        heavy = self.weight >= LEAST_WEIGHT
        return lambda weights: np.where(heavy, _largest(self._lift(weights)), np.nan)

    def _lift(self, weights: FloatArray) -> FloatArray:
        """`lift` where each query counts as often as `weights` [queries] or [R, queries] say."""
        total = np.tensordot(weights, self.sums[..., :-1, :], 1)
        return ratio(total[..., 0], total[..., 1])


def _largest(lift: FloatArray) -> FloatArray:
    """Over the offsets, NaN where none is known."""
    return np.asarray(np.fmax.reduce(lift, axis=-1))


def _of_places(score: FloatArray, identity: FloatArray) -> FloatArray:
    """Scores of the heads with an identity index below 0 and a lift; NaN elsewhere."""
    return np.where((identity < 0) & (score > 0), score, np.nan)
