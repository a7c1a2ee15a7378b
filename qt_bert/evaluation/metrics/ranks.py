"""Metrics of the order of all pairs, whatever their query: AUC at a cut, Spearman's ρ.

Under query weights a pair counts as often as its query was drawn; its rank among the copies is
the weighted mid-rank, read off cumulated weights along one order that is sorted only once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, IntArray, ratio
from qt_bert.evaluation.judgements import Judgements
from qt_bert.evaluation.metrics.metric import (
    ANY,
    GRADED,
    Estimator,
    Metric,
    Text,
    additive,
    sums_by_query,
)


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

METRICS = (AUC, SPEARMAN)
