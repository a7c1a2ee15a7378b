"""How strongly each head matches terms, beside what it does where there is nothing to match.

M (`matched`) is the mean attention of a row to its own term's places in the other text over that to
all other places there, as a ratio of sums over the sample. It is divided by M of the same rows and
columns after the query has been replaced by one that shares no character with the title: a head of
a fixed offset scores 1. A head's score is that of its better direction, among those in which it
gives the other text enough of its attention; of a head that does so in none, among both.

`heads_of_query_title_bert`, 2.4, chose such heads by eye.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import BoolArray, FloatArray, IntArray
from qt_bert.evaluation.intervals import bootstrap_weights
from qt_bert.probes.common.naming import (
    LEAST_WEIGHT,
    Named,
    name_heads,
    one_sided_p,
    ranked,
)
from qt_bert.probes.common.stability import Rule
from qt_bert.probes.term_matching.cells import CHARACTERS, DIAGONAL, OTHER, OWN
from qt_bert.probes.term_matching.sums import Sample, Sums

LEAST_SCORE = 2.0
"""The declared minimum effect: a head is named from a score of 2 on."""

LEAST_QUERIES = 10
"""A kind's ratio is not shown in a direction that fewer queries speak of."""

FLOOR = 1e-6
"""Added to mean weights, so that a head that gives a text next to nothing has no ratio of noise."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of every head over one sample of pairs.

    Arrays are [..., layers, heads, directions]; kinds are those of `cells.KINDS`, and after them
    `SINK_FREE_KIND`: characters, in attention between the two texts alone.
    """

    sums: Sums
    sample: Sample

    def ratio(self, kind: int = CHARACTERS) -> FloatArray:
        """M over M of the replaced queries [layers, heads, directions]; NaN without such rows."""
        return np.asarray(self._ratios(np.ones((1, self.sums.n_queries)), kind)[0])

    def queries(self, kind: int = CHARACTERS) -> IntArray:
        """How many queries have own and other cells of a kind [directions]."""
        return np.asarray((self.sums.counts[:, kind] > 0).all(axis=-1).sum(axis=0))

    def firm_ratio(self, kind: int = CHARACTERS) -> FloatArray:
        """`ratio`, NaN where a direction rests on fewer than LEAST_QUERIES queries."""
        return np.where(self.queries(kind) >= LEAST_QUERIES, self.ratio(kind), np.nan)

    def matched(self, kind: int = CHARACTERS, *, replaced: bool = False) -> FloatArray:
        """M alone, or that of the replaced queries [layers, heads, directions]."""
        sums = self.sums.replaced if replaced else self.sums.original
        return np.asarray(np.exp(_log_m(sums[:, kind].sum(0), self.sums.counts[:, kind].sum(0))))

    @cached_property
    def score(self) -> FloatArray:
        """The better direction's ratio [layers, heads]; NaN where there is none."""
        return along(self.direction, self.ratio())

    @cached_property
    def direction(self) -> IntArray:
        """Which direction that is [layers, heads]."""
        return self._better(self.ratio())

    @cached_property
    def weight(self) -> FloatArray:
        """The share of a matched row's attention that goes to the other text [layers, heads, directions]."""
        given = self.sums.original[:, CHARACTERS].sum((0, -1))
        rows = self.sums.rows[:, CHARACTERS].sum(0)
        return np.asarray(np.divide(given, rows, out=np.zeros_like(given), where=rows > 0))

    @cached_property
    def diagonal(self) -> FloatArray:
        """The share of a row's attention to the other text that goes to its own offset there."""
        sums = self.sums.original[:, DIAGONAL].sum(0)
        total = sums.sum(-1)
        return np.asarray(
            np.divide(sums[..., OWN], total, out=np.full(total.shape, np.nan), where=total > 0)
        )

    def excess(self, kind: int = CHARACTERS) -> FloatArray:
        """log M less that of the replaced queries, by query [queries, layers, heads, directions]."""
        counts = self.sums.counts[:, kind, None, None]
        original, replaced = (
            _log_m(sums[:, kind], counts) for sums in (self.sums.original, self.sums.replaced)
        )
        return original - replaced

    @cached_property
    def tested(self) -> Named:
        """Scores, p and q of every head in its better direction; q over both directions of all."""
        known = self.sums.n_queries > 1
        p = one_sided_p(self.excess()) if known else np.ones_like(self.ratio())
        weight = along(self.direction, self.weight)
        return name_heads(self.score, p, weight, least=LEAST_SCORE, choice=self.direction)

    def named(self) -> list[Head]:
        """Heads with score ≥ 2, q < 0.05 and enough weight in their better direction, best first."""
        return self.tested.heads()

    def best(self, k: int, within: Iterable[Head] | None = None) -> list[Head]:
        """The k best heads by score; those that give the other text too little weight come last."""
        allowed = None if within is None else set(within)
        known = (head for head in self._order(self.score) if np.isfinite(self.score[head]))
        return [head for head in known if allowed is None or head in allowed][:k]

    def rule(self, direction: int | None = None) -> Rule:
        """The rule of `best`, for any weights of the queries; with a `direction` only heads whose
        better one it is."""

        def score(weights: FloatArray) -> FloatArray:
            ratios = self._ratios(weights, CHARACTERS)
            better = self._better(ratios)
            found = along(better, ratios)
            ordered = np.where(self._heavy, found, -1 / found)  # too light: last, in the same order
            return ordered if direction is None else np.where(better == direction, ordered, np.nan)

        return score

    @property
    def eligible(self) -> list[Head]:
        """The heads that the best are chosen among: those that give the other text enough weight."""
        return [Head(int(layer), int(head)) for layer, head in np.argwhere(self._heavy)]

    def resampled(self, resamples: int, seed: int) -> FloatArray:
        """The ratio of characters in each resample of the queries [R, layers, heads, directions]."""
        shape = self.ratio().shape
        if not self.sums.n_queries:
            return np.full((resamples, *shape), np.nan)
        weights = bootstrap_weights(self.sums.n_queries, resamples, seed, width=self.ratio().size)
        found = [self._ratios(one, CHARACTERS) for one in weights]
        return np.concatenate([np.empty((0, *shape)), *found])

    @cached_property
    def _usable(self) -> BoolArray:
        """The directions in which a head gives the other text enough weight [layers, heads, directions]."""
        return np.asarray((self.weight >= LEAST_WEIGHT) & np.isfinite(self.ratio()))

    @cached_property
    def _heavy(self) -> BoolArray:
        """The heads that do so in some direction [layers, heads]."""
        return np.asarray(self._usable.any(axis=-1))

    def _better(self, ratios: FloatArray) -> IntArray:
        """The direction of the larger ratio, of all where a head gives enough weight in none."""
        allowed = np.isfinite(ratios) & (self._usable | ~self._heavy[..., None])
        return np.asarray(np.where(allowed, ratios, -np.inf).argmax(axis=-1))

    def _order(self, score: FloatArray) -> list[Head]:
        """All heads by `score`; those that give the other text too little weight come last."""
        return sorted(ranked(score), key=lambda head: not self._heavy[head])

    def _ratios(self, weights: FloatArray, kind: int) -> FloatArray:
        """The ratio under each row of query weights [R, layers, heads, directions]."""
        counts = np.tensordot(weights, self.sums.counts[:, kind], 1)[:, None, None]
        original, replaced = (
            _log_m(np.tensordot(weights, sums[:, kind], 1), counts)
            for sums in (self.sums.original, self.sums.replaced)
        )
        return np.asarray(np.exp(original - replaced))


def along(direction: IntArray, values: FloatArray) -> FloatArray:
    """Of `values` [layers, heads, directions] each head's in its own direction [layers, heads]."""
    return np.asarray(np.take_along_axis(values, direction[..., None], axis=-1)[..., 0])


def _log_m(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """log M from sums [..., directions, own and other] and counts; NaN where a count is 0."""
    sums, counts = np.broadcast_arrays(sums, counts)
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0) + FLOOR
    return np.asarray(np.log(means[..., OWN]) - np.log(means[..., OTHER]))
