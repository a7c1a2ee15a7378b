"""The article's union, "one of the heads is right", and what of it is more than chance.

Of many heads that say different things one is right about anything: U(k) → 1 whatever they say. So
it is set beside U₀(k), the same for references shifted along the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.evaluation.intervals import bootstrap_weights
from qt_bert.probes.word_ends.calibrate import shifted_labels
from qt_bert.probes.word_ends.decisions import Decisions

SHIFTS = 200
LEAST_DECISIONS = 4
MOST_NULL = 0.995


@dataclass(frozen=True, eq=False)
class Union:
    """Decisions of each query that one of the first k heads gets right, by k from 0.

    `right` [Q, heads + 1] for the reference, `null` as a mean over its shifts; `size` [Q]: all of
    the query's decisions. Queries without any are left out.
    """

    right: FloatArray
    null: FloatArray
    size: FloatArray

    @property
    def share(self) -> FloatArray:
        """U(k) by k from 0; NaN without decisions."""
        return ratio(self.right.sum(0), self.size.sum())

    @property
    def chance(self) -> FloatArray:
        """U₀(k) by k from 0."""
        return ratio(self.null.sum(0), self.size.sum())

    @property
    def worth(self) -> FloatArray:
        """(U − U₀) / (1 − U₀) by k from 0; NaN where chance alone leaves nothing to find."""
        return worth_of(self.share, self.chance)

    @property
    def best_k(self) -> int:
        """The k ≥ 1 with the largest U − U₀; 1 where none is defined."""
        gain = (self.share - self.chance)[1:]
        return int(np.nan_to_num(gain, nan=-1.0).argmax()) + 1

    def samples(self, k: int, resamples: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """U(k) and worth(k) under each resample of the queries, both [R]."""
        queries = len(self.size)
        columns = np.stack([self.right[:, k], self.null[:, k], self.size], 1)
        if not queries:
            return np.empty(0), np.empty(0)
        drawn = bootstrap_weights(queries, resamples, seed, width=queries)
        sums = np.concatenate([w @ columns for w in drawn] or [columns[:0]])
        share, chance = ratio(sums[:, 0], sums[:, 2]), ratio(sums[:, 1], sums[:, 2])
        return share, worth_of(share, chance)

    def excess(self, k: int) -> FloatArray:
        """Shares of the queries in U(k) − U₀(k) [Q], whose mean it is."""
        return ratio((self.right - self.null)[:, k] * len(self.size), self.size.sum())


def worth_of(share: FloatArray, chance: FloatArray) -> FloatArray:
    """(U − U₀) / (1 − U₀), NaN where U₀ > 0.995."""
    left = np.where(chance > MOST_NULL, np.nan, 1 - chance)
    return np.asarray((share - chance) / left)


def union_of(
    said: BoolArray,
    labels: BoolArray,
    decisions: Decisions,
    order: Sequence[Head],
    *,
    shifts: int = SHIFTS,
    seed: int = 0,
) -> Union:
    """The union of heads taken in `order`; `said` [layers, heads, D].

    Texts with under four decisions are left out: they have too few shifts.
    """
    long = decisions.of_long_texts(LEAST_DECISIONS)
    first = _first_to_say(said, order)
    right = _hits(first, labels, long, decisions, len(order))
    null = np.zeros_like(right)
    for others in shifted_labels(labels, decisions, shifts, seed):
        null += _hits(first, others, long, decisions, len(order)) / shifts
    size = np.bincount(decisions.query[long], minlength=decisions.n_queries).astype(np.float64)
    kept = size > 0
    return Union(right[kept], null[kept], size[kept])


def random_unions(
    said: BoolArray,
    labels: BoolArray,
    decisions: Decisions,
    heads: Sequence[Head],
    draws: int,
    seed: int,
) -> FloatArray:
    """U(k) by k from 0, of heads in random order, averaged over `draws` orders."""
    rng = np.random.default_rng(seed)
    orders = [[heads[at] for at in rng.permutation(len(heads))] for _ in range(draws)]
    found = [union_of(said, labels, decisions, order, shifts=0).share for order in orders]
    return np.mean(found, axis=0)


def _first_to_say(said: BoolArray, order: Sequence[Head]) -> IntArray:
    """The place in `order` of the first head that says no, and of the first that says yes [2, D].

    Where no head does, it is the number of heads.
    """
    layers, heads = (
        np.array([head.layer for head in order]),
        np.array([head.head for head in order]),
    )
    ordered = said[layers, heads]
    return np.stack(
        [
            np.where((ordered == yes).any(0), (ordered == yes).argmax(0), len(order))
            for yes in (False, True)
        ]
    )


def _hits(
    first: IntArray, labels: BoolArray, kept: BoolArray, decisions: Decisions, heads: int
) -> FloatArray:
    """Decisions of each query that one of the first k says right, by k from 0 [Q, heads + 1]."""
    needed = np.where(labels, first[1], first[0])[kept]
    width = heads + 2
    cells = decisions.query[kept] * width + needed + 1
    counts = np.bincount(cells, minlength=decisions.n_queries * width)
    return np.asarray(counts.reshape(-1, width).cumsum(1)[:, :-1], np.float64)
