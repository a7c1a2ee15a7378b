"""The shape of a metric: a small declaration, and how it is computed under query weights.

A bootstrap resample of queries is a weight for each query (how often it was drawn), so every
metric is a function from weights [R, Q] to values [R], and a plain value is the one for weights
of 1. Most metrics are sums over queries followed by a formula (`additive`): the sums are made
once, and a resample is one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from qt_bert.stats.arrays import FloatArray, ratio, sum_by
from qt_bert.stats.judgements import Judgements, Mode

Need: TypeAlias = Literal["class", "ordinal", "ranking", "calibration"]
Estimator: TypeAlias = Callable[[FloatArray], FloatArray]
"""Query weights [R, Q] to the metric under each row [R], NaN where it is undefined."""

LEVELLED: frozenset[Mode] = frozenset({"grades", "coarse", "levels"})
GRADED: frozenset[Mode] = LEVELLED | {"overlapping"}
ANY: frozenset[Mode] = GRADED | {"score"}

REASONS: dict[Mode, str] = {
    "overlapping": "the labels are sets of grades that overlap: they are no ordered levels",
    "score": "a one-logit model gives an order, no grades: judged by pairwise accuracy, NDCG, "
    "Spearman",
}


class Text(NamedTuple):
    """One text in both languages."""

    zh: str
    en: str


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric, as command line, report, documents and code know it.

    `direction` says which values are better, `zero` meaning nearest to 0; an open end of
    `range` is None; `modes` are those of `Judgements` in which it is defined; `undefined` is the
    reason given where the data leave it without a value; `per_query` metrics rest on the eligible
    queries alone, those with two different labels. `of_ranks`, for metrics that rank all pairs,
    is the same value as sums over queries where the scores already are ranks.
    """

    name: str
    title: Text
    description: Text
    direction: Literal["higher", "lower", "zero"]
    range: tuple[float | None, float | None]
    needs: Need
    modes: frozenset[Mode]
    estimator: Callable[[Judgements], Estimator]
    undefined: str = "no pair to judge"
    per_query: bool = False
    of_ranks: Callable[[Judgements], Estimator] | None = None

    def refusal(self, judgements: Judgements) -> str | None:
        """Why this metric is not defined for this kind of model and labels; None if it is."""
        return None if judgements.mode in self.modes else REASONS[judgements.mode]

    def value(self, judgements: Judgements) -> float | None:
        """The metric over all pairs; None where it is not defined."""
        if self.refusal(judgements):
            return None
        value = float(self.estimator(judgements)(np.ones((1, judgements.n_queries)))[0])
        return None if np.isnan(value) else value


def additive(
    statistics: Callable[[Judgements], FloatArray], combine: Callable[[FloatArray], FloatArray]
) -> Callable[[Judgements], Estimator]:
    """An estimator from per-query sums [Q, m] and a formula over their weighted total [R, m]."""

    def estimator(judgements: Judgements) -> Estimator:
        table = statistics(judgements)
        return lambda weights: combine(weights @ table)

    return estimator


def mean_of(
    quantity: Callable[[Judgements], npt.NDArray[np.generic]],
) -> Callable[[Judgements], Estimator]:
    """An estimator of the mean over pairs of `quantity` [n]."""

    def statistics(judgements: Judgements) -> FloatArray:
        return sums_by_query(judgements, quantity(judgements), np.ones(len(judgements)))

    return additive(statistics, quotient)


def sums_by_query(judgements: Judgements, *columns: npt.NDArray[np.generic]) -> FloatArray:
    """Sum of each column [n] over the pairs of each query [Q, columns]."""
    index, n_queries = judgements.query_index, judgements.n_queries
    return np.stack([sum_by(index, column, n_queries) for column in columns], axis=1)


def quotient(sums: FloatArray) -> FloatArray:
    """First column over second [R, 2] -> [R]."""
    return ratio(sums[:, 0], sums[:, 1])
