"""Behaviour cases judged by the scores of their two titles, and the band within which scores are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qt_bert.data.cases import BETTER, Case
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray
from qt_bert.stats.estimate import Estimate, group_queries, over_queries
from qt_bert.text import query_key

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels

RIGHT, UNDECIDED, WRONG = 1, 0, -1


@dataclass(frozen=True, eq=False)
class ScoredCases:
    """Cases with the scores [n] of both titles; differences up to `band` do not count.

    Raises ArgumentError unless each title has one finite score, and for a `band` below 0.
    """

    cases: tuple[Case, ...]
    titles: FloatArray
    others: FloatArray
    band: float

    def __post_init__(self) -> None:
        for name, scores in (("titles", self.titles), ("others", self.others)):
            if scores.shape != (len(self.cases),) or not np.isfinite(scores).all():
                raise ArgumentError(
                    f"the scores of the {name} have shape {scores.shape}: one finite number is "
                    f"needed for each of {len(self.cases)} cases"
                )
        if not self.band >= 0:
            raise ArgumentError(f"the band is {self.band}; it is 0 or more")

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def deltas(self) -> FloatArray:
        """Δ, score(title) − score(other) [n]."""
        return self.titles - self.others

    @property
    def better(self) -> BoolArray:
        """Which cases expect the first title to score higher [n]; the others expect equal scores."""
        return np.array([case.relation == BETTER for case in self.cases], np.bool_)

    @cached_property
    def outcomes(self) -> IntArray:
        """RIGHT, UNDECIDED (of `better` alone) or WRONG [n]."""
        beyond = np.abs(self.deltas) > self.band
        ranked = np.where(beyond, np.sign(self.deltas), UNDECIDED)
        return np.where(self.better, ranked, np.where(beyond, WRONG, RIGHT)).astype(np.int64)

    @property
    def queries(self) -> list[str]:
        """The query of each case."""
        return [case.query for case in self.cases]

    @property
    def score(self) -> Estimate:
        """(right − wrong) / cases: a query's cases averaged, then the queries."""
        return over_queries(self.outcomes, self.queries)

    def by_phenomenon(self) -> dict[str, ScoredCases]:
        """The cases of each phenomenon, in the order in which they first come."""
        names = dict.fromkeys(case.phenomenon for case in self.cases)
        return {name: self.where(case.phenomenon == name for case in self.cases) for name in names}

    def where(self, keeps: Iterable[bool]) -> ScoredCases:
        """The cases where `keeps` [n] is true."""
        kept = [row for row, keep in enumerate(keeps) if keep]
        cases = tuple(self.cases[row] for row in kept)
        return ScoredCases(cases, self.titles[kept], self.others[kept], self.band)


GRADES = 0.25
"""Of expected grades: a sixteenth of the way from 1 to 5."""


@dataclass(frozen=True)
class Band:
    """The band's width in `unit` (`grade`, `level`, or the `score` of one logit).

    `source` is `fixed`, or the name of the file with the `gaps`, of which the width is the median.
    """

    value: float
    unit: str
    source: str = "fixed"
    gaps: int | None = None


def fixed_band(labels: ModelLabels) -> Band | None:
    """0.25 of a grade, or the same share of another scale of levels; None for one logit."""
    if labels.logits == 1:
        return None
    return Band(GRADES * labels.grade_step, "level" if labels.levels else "grade")


def measured_band(scores: FloatArray, queries: Sequence[str], source: str) -> Band:
    """The median gap between neighbours in the ranking of each query's titles by `scores` [n]."""
    _, index = group_queries(queries)
    order = np.lexsort((scores, index))
    gaps = np.diff(scores[order])[np.diff(index[order]) == 0]
    return Band(float(np.median(gaps)), "score", source, len(gaps))


def ranked_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """The distinct pairs of queries with two titles or more."""
    once: dict[tuple[Hashable, str], Pair] = {}
    for pair in pairs:
        once.setdefault((query_key(pair.query), pair.title), pair)
    titles = Counter(query for query, _ in once)
    return [pair for (query, _), pair in once.items() if titles[query] > 1]
