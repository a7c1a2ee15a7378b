"""NDCG at a depth, expected over the random order of titles whose scores tie.

K. Järvelin and J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 20 (2002);
ties after F. McSherry and M. Najork, "Computing information retrieval performance measures
efficiently in the presence of tied scores", ECIR 2008.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, IntArray, ratio, sum_by
from qt_bert.evaluation.judgements import Judgements
from qt_bert.evaluation.metrics.metric import ANY, Metric, Text, additive, quotient

DEPTHS = (1, 3, 5, 10)


def exponential_gain(truth: FloatArray) -> FloatArray:
    """2^(g−1) − 1."""
    return np.exp2(truth - 1) - 1


def linear_gain(truth: FloatArray) -> FloatArray:
    """g − 1."""
    return truth - 1


def dcg_by_query(
    query: IntArray, n_queries: int, score: FloatArray, gain: FloatArray, depth: int
) -> FloatArray:
    """Discounted cumulated gain of each query's `depth` best-scored titles [Q], ties averaged."""
    order = np.lexsort((-score, query))
    query, score, gain = query[order], score[order], gain[order]
    rank = np.arange(len(query))
    position = rank - np.searchsorted(query, query, side="left")
    discount = np.where(position < depth, 1 / np.log2(position + 2), 0.0)
    changes = (np.diff(query) != 0) | (np.diff(score) != 0)
    tie = np.concatenate(([0], np.cumsum(changes)))
    mean_gain = sum_by(tie, gain, len(query))[tie] / np.bincount(tie)[tie]
    return sum_by(query, mean_gain * discount, n_queries)


def ndcg_by_query(
    judgements: Judgements, gain_of: Callable[[FloatArray], FloatArray], depth: int
) -> FloatArray:
    """NDCG of each eligible query beside a 1, and two zeros for the others [Q, 2]."""
    query, n_queries = judgements.query_index, judgements.n_queries
    gain = gain_of(judgements.ranking_truth)
    actual = dcg_by_query(query, n_queries, judgements.ranking_score, gain, depth)
    ideal = dcg_by_query(query, n_queries, gain, gain, depth)
    eligible = judgements.eligible & (ideal > 0)
    value = np.where(eligible, ratio(actual, ideal), 0.0)
    return np.stack([value, eligible.astype(np.float64)], axis=1)


def _declare(
    prefix: str, formula: str, gain_of: Callable[[FloatArray], FloatArray], depth: int
) -> Metric:
    linear = " linear" if gain_of is linear_gain else ""
    return Metric(
        name=f"{prefix}_{depth}",
        title=Text(f"{'线性 ' if linear else ''}NDCG@{depth}", f"NDCG@{depth}{linear}"),
        description=Text(
            f"每个查询前 {depth} 条的归一化折损累积增益（增益 {formula}，同分取平均）。",
            f"Normalised discounted cumulated gain of the first {depth} titles of a query, "
            f"gain {formula}, averaged over the orders of tied scores.",
        ),
        direction="higher",
        range=(0, 1),
        needs="ranking",
        modes=ANY,
        estimator=additive(lambda judged: ndcg_by_query(judged, gain_of, depth), quotient),
        undefined="no query has titles of two grades",
        per_query=True,
    )


METRICS = tuple(
    _declare(prefix, formula, gain_of, depth)
    for prefix, formula, gain_of in (
        ("ndcg_at", "2^(g−1)−1", exponential_gain),
        ("ndcg_linear_at", "g−1", linear_gain),
    )
    for depth in DEPTHS
)
