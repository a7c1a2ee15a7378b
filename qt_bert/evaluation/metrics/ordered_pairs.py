"""Metrics of pairs of titles of one query with different labels: which one scores higher."""

from __future__ import annotations

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, ratio, sum_by
from qt_bert.evaluation.judgements import Judgements
from qt_bert.evaluation.metrics.metric import ANY, GRADED, Metric, Text, additive

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

METRICS = (PNR, PAIRWISE_ACCURACY)
