"""Metrics of order: of titles under one query (NDCG, pairs), of all pairs (AUC, Spearman's ρ)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qt_bert.stats.arrays import FloatArray, IntArray, ratio, sum_by
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics.metric import (
    ANY,
    GRADED,
    Estimator,
    Metric,
    Text,
    additive,
    quotient,
    sums_by_query,
)

# NDCG at a depth, expected over the random order of titles whose scores tie.
#
# K. Järvelin and J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 20 (2002);
# ties after F. McSherry and M. Najork, "Computing information retrieval performance measures
# efficiently in the presence of tied scores", ECIR 2008.


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


NDCG_METRICS = tuple(
    _declare(prefix, formula, gain_of, depth)
    for prefix, formula, gain_of in (
        ("ndcg_at", "2^(g−1)−1", exponential_gain),
        ("ndcg_linear_at", "g−1", linear_gain),
    )
    for depth in DEPTHS
)


# Metrics of pairs of titles of one query with different labels: which one scores higher.


CONCORDANT, DISCORDANT, TIED = range(3)


def ordered_pairs_by_query(judgements: Judgements) -> FloatArray:
    """Concordant, discordant and score-tied title pairs of different truth in each query [Q, 3].

    Memory stays linear in n: for every level, the titles of that level below each better title
    are read off one cumulated count along the order of scores.
    """
    order = np.lexsort((judgements.ranking_score, judgements.query_index))
    query = judgements.query_index[order]
    score, truth = judgements.ranking_score[order], judgements.ranking_truth[order]
    query_start, query_end = (np.searchsorted(query, query, side=s) for s in ("left", "right"))
    changes = np.concatenate(([True], (np.diff(query) != 0) | (np.diff(score) != 0)))
    bounds = np.append(np.flatnonzero(changes), len(query))
    tie = np.cumsum(changes) - 1
    tie_start, tie_end = bounds[tie], bounds[tie + 1]
    counts = np.zeros((judgements.n_queries, 3))
    for level in np.unique(truth)[:-1]:
        seen = np.concatenate(([0], np.cumsum(truth == level)))
        better = truth > level
        for column, (start, end) in enumerate(
            ((query_start, tie_start), (tie_end, query_end), (tie_start, tie_end))
        ):
            found = np.where(better, seen[end] - seen[start], 0)
            counts[:, column] += sum_by(query, found, judgements.n_queries)
    return counts


def _pairwise_accuracy(counts: FloatArray) -> FloatArray:
    return ratio(counts[:, CONCORDANT] + counts[:, TIED] / 2, counts.sum(axis=1))


PNR = Metric(
    name="pnr",
    title=Text("正逆序比", "positive-negative ratio"),
    description=Text(
        "同一查询下，标题对排对的数目除以排反的数目；同分单列，不计入两边。",
        "Title pairs of a query in the right order over those in the wrong one; ties in neither.",
    ),
    direction="higher",
    range=(0, None),
    needs="ranking",
    modes=GRADED,
    estimator=additive(
        ordered_pairs_by_query, lambda counts: ratio(counts[:, CONCORDANT], counts[:, DISCORDANT])
    ),
    undefined="no pair of titles is in the wrong order",
    per_query=True,
)

PAIRWISE_ACCURACY = Metric(
    name="pairwise_accuracy",
    title=Text("成对准确率", "pairwise accuracy"),
    description=Text(
        "同一查询下不同等级的标题对中，更好的一条得分更高的比例；同分算一半。",
        "Share of a query's title pairs of different grade whose better title scores higher, "
        "ties counting half.",
    ),
    direction="higher",
    range=(0, 1),
    needs="ranking",
    modes=ANY,
    estimator=additive(ordered_pairs_by_query, _pairwise_accuracy),
    undefined="no query has titles of two grades",
    per_query=True,
)

ORDERED_PAIR_METRICS = (PNR, PAIRWISE_ACCURACY)


# Metrics of the order of all pairs, whatever their query: AUC at a cut, Spearman's ρ.
#
# Under query weights a pair counts as often as its query was drawn; its rank among the copies is
# the weighted mid-rank, read off cumulated weights along one order that is sorted only once.


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Equal values form groups 0..G-1, lowest first.

    `group` [n] is the group of each value; `order` [n] sorts them, and in that order group g
    begins at `start` [G].
    """

    group: IntArray
    order: IntArray
    start: IntArray

    @classmethod
    def of(cls, values: FloatArray) -> TieGroups:
        """The groups of `values` [n]."""
        _, group, size = np.unique(values, return_inverse=True, return_counts=True)
        start = np.concatenate(([0], np.cumsum(size)[:-1]))
        return cls(group, np.argsort(group, kind="stable"), start)

    def totals(self, ordered_weights: FloatArray) -> FloatArray:
        """Weight of each group [R, G], from the weights in `order` [R, n]."""
        if len(self.start) == len(self.order):
            return ordered_weights
        return np.add.reduceat(ordered_weights, self.start, axis=1)

    def centred_ranks(self, ordered_weights: FloatArray) -> FloatArray:
        """Weighted mid-rank of each group less the mean rank [R, G]."""
        totals = self.totals(ordered_weights)
        cumulated = totals.cumsum(axis=1)
        return cumulated - totals / 2 - cumulated[:, -1:] / 2


def spearman_estimator(judgements: Judgements) -> Estimator:
    """Pearson's correlation of weighted mid-ranks of score and target."""
    score, target = map(TieGroups.of, (judgements.ranking_score, judgements.spearman_target))
    by_score, by_target = (judgements.query_index[one.order] for one in (score, target))
    score_group, target_group = score.group[score.order], target.group[score.order]

    def estimate(query_weights: FloatArray) -> FloatArray:
        weights, target_weights = query_weights[:, by_score], query_weights[:, by_target]
        x, y = score.centred_ranks(weights), target.centred_ranks(target_weights)
        x_variance = np.einsum("rg,rg,rg->r", score.totals(weights), x, x)
        y_variance = np.einsum("rg,rg,rg->r", target.totals(target_weights), y, y)
        covariance = np.einsum("rn,rn,rn->r", weights, x[:, score_group], y[:, target_group])
        return ratio(covariance, np.sqrt(x_variance) * np.sqrt(y_variance))

    return estimate


def auc_estimator(judgements: Judgements) -> Estimator:
    """Share of (relevant, other) couples whose relevant pair scores higher, ties half."""
    score = TieGroups.of(judgements.ranking_score)
    relevant = (judgements.ranking_truth >= judgements.auc_cut)[score.order]
    by_score = judgements.query_index[score.order]

    def estimate(query_weights: FloatArray) -> FloatArray:
        weights = query_weights[:, by_score]
        above, below = score.totals(weights * relevant), score.totals(weights * ~relevant)
        won = np.einsum("rg,rg->r", above, below.cumsum(axis=1) - below / 2)
        return ratio(won, above.sum(axis=1) * below.sum(axis=1))

    return estimate


def _pearson_statistics(judgements: Judgements) -> FloatArray:
    """Σ 1, x, y, xy, xx, yy of each query [Q, 6]."""
    x, y = judgements.ranking_score, judgements.spearman_target
    return sums_by_query(judgements, np.ones(len(x)), x, y, x * y, x * x, y * y)


def _pearson(sums: FloatArray) -> FloatArray:
    n, x, y, xy, xx, yy = sums.T
    return ratio(n * xy - x * y, np.sqrt(np.maximum((n * xx - x * x) * (n * yy - y * y), 0)))


def _mean_rank_statistics(judgements: Judgements) -> FloatArray:
    """Σ 1 and Σ rank over the relevant, then over the other pairs of each query [Q, 4]."""
    relevant = judgements.ranking_truth >= judgements.auc_cut
    rank = judgements.ranking_score
    return sums_by_query(judgements, relevant, relevant * rank, ~relevant, ~relevant * rank)


def _mean_rank_auc(sums: FloatArray) -> FloatArray:
    """AUC = 1/2 + mean rank of the relevant − mean rank of the others, ranks being over n."""
    n_relevant, relevant_ranks, n_other, other_ranks = sums.T
    return 0.5 + ratio(relevant_ranks, n_relevant) - ratio(other_ranks, n_other)


AUC = Metric(
    name="auc",
    title=Text("AUC", "AUC at a cut"),
    description=Text(
        "任取一条达到分界等级和一条未达到的（不限查询），前者得分更高的概率；同分算一半。",
        "Chance that a pair graded at or above the cut scores higher than one below it, whatever "
        "their queries, ties counting half.",
    ),
    direction="higher",
    range=(0, 1),
    needs="ranking",
    modes=GRADED,
    estimator=auc_estimator,
    of_ranks=additive(_mean_rank_statistics, _mean_rank_auc),
    undefined="all labels lie on one side of the cut",
)

SPEARMAN = Metric(
    name="spearman",
    title=Text("Spearman 相关", "Spearman's rho"),
    description=Text(
        "排序分（期望等级）与标注在全部样本上的秩相关。",
        "Rank correlation of the score (expected grade) with the label over all pairs.",
    ),
    direction="higher",
    range=(-1, 1),
    needs="ranking",
    modes=ANY,
    estimator=spearman_estimator,
    of_ranks=additive(_pearson_statistics, _pearson),
    undefined="the scores or the labels are all equal",
)

RANK_METRICS = (AUC, SPEARMAN)
