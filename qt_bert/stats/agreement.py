"""How far raters agree on the grades of the same pairs: κ, Krippendorff's α, bias, within one grade.

A label is a set of grades. Exact grades lie on the scale of grades, and sets that do not overlap are
levels of their own: of both every figure is the textbook's. Where sets overlap, the distance of two
labels is that of their nearest grades: "3-4" agrees with 3 and with 4, and lies one grade from 5.
Whatever is measured is a function of counts of label pairs, summed over queries, so that a resample of
queries is a row of weights; all figures of one call see the same resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product
from typing import Any

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, count_cells, ratio
from qt_bert.stats.intervals import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.judgements import (
    GradeSet,
    are_ordered_levels,
    checked_set,
    index_queries,
)
from qt_bert.stats.metrics import as_matrices, weighted_kappa

Figure = Callable[[FloatArray], FloatArray]
"""Counts of label pairs [R, C, C] to a value under each [R]."""
MARGIN = 0.05
"""A judge stands for raters who agrees with them, in quadratic κ, less than this below what they agree
with each other."""
RELIABLE, TENTATIVE = 0.8, 0.667
"""α from which K. Krippendorff, *Content Analysis* (2004), 11.4.2, draws conclusions, or tentative ones."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """What R raters say of n pairs: `codes` [n, R] are places in `sets` (C labels by mean grade), −1
    where a rater says nothing. `query_index` [n] is the query of each pair, 0..Q−1."""

    raters: tuple[str, ...]
    sets: tuple[GradeSet, ...]
    codes: IntArray
    query_index: IntArray
    n_queries: int

    @classmethod
    def of(
        cls,
        raters: Sequence[str],
        labels: Sequence[Sequence[GradeSet | None]],
        queries: Sequence[str],
    ) -> Ratings:
        """`labels` [n][R] with the `queries` [n] of the pairs; ArgumentError where no pair has two."""
        found = {checked_set(one, "a label") for row in labels for one in row if one is not None}
        sets = tuple(sorted(found, key=lambda one: (sum(one) / len(one), one)))
        place: dict[GradeSet | None, int] = {None: -1} | {one: n for n, one in enumerate(sets)}
        codes = np.array([[place[one] for one in row] for row in labels], np.int64)
        if not ((codes >= 0).sum(axis=1) > 1).any():
            raise ArgumentError("no pair has a grade of two raters")
        return cls(tuple(raters), sets, codes, *index_queries(queries))

    def subset(self, rows: BoolArray) -> Ratings:
        """The ratings of some pairs, a mask [n]."""
        queries, index = np.unique(self.query_index[rows], return_inverse=True)
        return Ratings(
            self.raters, self.sets, self.codes[rows], index.astype(np.int64), len(queries)
        )

    @property
    def places(self) -> list[tuple[int, ...]]:
        """The places of each label on the scale, from 0: its grades, or its level [C]."""
        if any(len(one) > 1 for one in self.sets) and are_ordered_levels(self.sets):
            return [(level,) for level in range(len(self.sets))]
        return [tuple(grade - 1 for grade in one) for one in self.sets]

    def nearest(self) -> tuple[IntArray, IntArray]:
        """For two labels the places of each that lie nearest: two arrays [C, C]."""
        pairs = [
            min(product(one, other), key=lambda ab: abs(ab[0] - ab[1]))
            for one, other in product(self.places, repeat=2)
        ]
        shape = (2, len(self.sets), len(self.sets))
        first, second = np.array(pairs, np.int64).T.reshape(shape)
        return first, second

    def counts(self, first: int, second: int) -> FloatArray:
        """How often each query has each two labels of two raters [Q, C · C], rows the first one's."""
        a, b = self.codes[:, first], self.codes[:, second]
        both, n = (a >= 0) & (b >= 0), len(self.sets)
        return count_cells(self.query_index[both], a[both] * n + b[both], self.n_queries, n * n)

    def distance(self) -> IntArray:
        """The largest distance of two raters' labels of each pair [n]; −1 where fewer than two rate."""
        first, second = self.nearest()
        found = np.full(len(self.codes), -1)
        for a, b in combinations(self.codes.T, 2):
            gap = np.where((a >= 0) & (b >= 0), np.abs(first - second)[a, b], -1)
            found = np.maximum(found, gap)
        return found


def alpha(coincidences: FloatArray, ratings: Ratings) -> FloatArray:
    """Krippendorff's α for ordered values, of coincidences [R, C, C] -> [R]; NaN without variation.

    The distance of two grades is that of their mid-ranks among all that was given (K. Krippendorff,
    "Computing Krippendorff's alpha-reliability", 2011); a label of several counts as a share of each.
    """
    given = coincidences.sum(axis=2)
    scale = range(max(map(max, ratings.places)) + 1)
    share = np.array([[(one in label) / len(label) for one in scale] for label in ratings.places])
    by_grade = given @ share
    rank = by_grade.cumsum(axis=1) - by_grade / 2
    first, second = ratings.nearest()
    penalty = np.square(rank[:, first] - rank[:, second])
    observed = np.einsum("rck,rck->r", coincidences, penalty)
    expected = np.einsum("rc,rk,rck->r", given, given, penalty)
    return 1.0 - ratio(observed * (given.sum(axis=1) - 1), expected)


def agreement(
    ratings: Ratings, judges: Sequence[str] = (), *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """Measure how far raters agree, with 95 % bootstrap intervals over queries.

    `alpha` of all raters; `between`, of every two, `a` and `b`, the `metrics` `agreement` (share of pairs whose labels share a grade), `kappa`
    and `quadratic_kappa` (Cohen), `alpha`, `within_one`, `bias` (b's grade less a's); `bias_by_label`, by
    a's label; `confusion`, counts [C][C]. `judges`, of each rater named so: its mean quadratic κ with
    the raters who are none (`own`), theirs with each other (`rest`), the `difference`, and whether it
    `stands` for them: the interval lies above −MARGIN (True), below (False), or holds it (None).
    """
    first, second = ratings.nearest()
    gap, labels = (second - first).astype(np.float64), range(len(ratings.sets))

    def mean(cells: FloatArray, rows: Sequence[int] = labels) -> Figure:
        of = np.isin(labels, rows)[:, None]
        return lambda counts: ratio((counts * of * cells).sum((1, 2)), (counts * of).sum((1, 2)))

    figures: dict[str | int, Figure] = {
        "agreement": mean((gap == 0).astype(np.float64)),
        "kappa": lambda counts: weighted_kappa(counts, (gap != 0).astype(np.float64)),
        "quadratic_kappa": lambda counts: weighted_kappa(counts, gap**2),
        "alpha": lambda counts: alpha(counts + counts.transpose(0, 2, 1), ratings),
        "within_one": mean((np.abs(gap) <= 1).astype(np.float64)),
        "bias": mean(gap),
        **{label: mean(gap, [label]) for label in labels},
    }

    def drawn(table: FloatArray, wanted: Iterable[Figure]) -> FloatArray:
        """Figures of a table [Q, C · C], the value and then the resampled ones [m, 1 + R]."""
        weights = bootstrap_weights(ratings.n_queries, resamples, seed, width=table.shape[1])
        estimators = [lambda rows, one=one: one(as_matrices(rows @ table)) for one in wanted]
        return resample(estimators, chain([np.ones((1, ratings.n_queries))], weights))

    def measured(values: FloatArray, n: float) -> dict[str, Any]:
        low = high = value = None
        reason: str | None = "all labels are one" if n else "no pair has such labels"
        if not np.isnan(values[0]):
            value = float(values[0])
            low, high, reason = interval_or_reason(values[1:], ratings.n_queries)
        return {"value": value, "ci_low": low, "ci_high": high, "n": int(n), "reason": reason}

    between, kappas = [], {}
    for pair in combinations(range(len(ratings.raters)), 2):
        table = ratings.counts(*pair)
        confusion = as_matrices(table.sum(axis=0)[None])[0].astype(int)
        found = dict(zip(figures, drawn(table, figures.values()), strict=True))
        a, b = (ratings.raters[one] for one in pair)
        kappas[frozenset((a, b))] = found["quadratic_kappa"]
        by_label = [measured(found.pop(label), confusion[label].sum()) for label in labels]
        metrics = {name: measured(values, confusion.sum()) for name, values in found.items()}
        told = {"metrics": metrics, "bias_by_label": by_label, "confusion": confusion.tolist()}
        between.append({"a": a, "b": b, **told})

    together = drawn(_coincidences(ratings), [lambda counts: alpha(counts, ratings)])[0]
    rated = ((ratings.codes >= 0).sum(axis=1) > 1).sum()
    people, judged = set(ratings.raters) - set(judges), []
    for name in judges:
        own = np.mean([k for two, k in kappas.items() if name in two and people & two], axis=0)
        rest = np.mean([k for two, k in kappas.items() if two <= people], axis=0)
        change = measured(own - rest, rated)
        low, high = change["ci_low"], change["ci_high"]
        stands = None if low is None or low <= -MARGIN <= high else low > -MARGIN
        kappa = {"own": measured(own, rated)["value"], "rest": measured(rest, rated)["value"]}
        judged.append({"rater": name, **kappa, "difference": change, "stands": stands})
    return {"alpha": measured(together, rated), "between": between, "judges": judged}


def _coincidences(ratings: Ratings) -> FloatArray:
    """Coincidences of labels in each query [Q, C · C]: of a pair with m labels every ordered two count
    1 / (m − 1)."""
    n, told = len(ratings.sets), (ratings.codes >= 0).sum(axis=1)
    table = np.zeros((ratings.n_queries, n * n))
    for a, b in permutations(ratings.codes.T, 2):
        both = (a >= 0) & (b >= 0)
        place = (ratings.query_index[both], a[both] * n + b[both])
        np.add.at(table, place, 1 / (told[both] - 1))
    return table
