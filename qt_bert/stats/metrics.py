"""The metrics: one small declaration each, and how it is computed under query weights.

A bootstrap resample of queries is a weight for each query (how often it was drawn), so every
metric is a function from weights [R, Q] to values [R], and a plain value is the one for weights
of 1. Most metrics are sums over queries followed by a formula (`additive`): the sums are made
once, and a resample is one matrix product. Command line, report and documents list `METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from qt_bert.stats.arrays import FloatArray, IntArray, count_cells, mean_known, ratio, sum_by
from qt_bert.stats.estimate import bootstrap_weights, resample
from qt_bert.stats.judgements import Judgements, Mode, known
from qt_bert.text import Text

Estimator: TypeAlias = Callable[[FloatArray], FloatArray]
"""Query weights [R, Q] to the metric under each row [R], NaN where it is undefined."""

LEVELLED: frozenset[Mode] = frozenset({"grades", "coarse", "levels"})
GRADED: frozenset[Mode] = LEVELLED | {"overlapping"}
WITH_GRADES: frozenset[Mode] = GRADED | {"score"}
ANY: frozenset[Mode] = WITH_GRADES | {"numbers"}

REASONS: dict[Mode, Text] = {
    "overlapping": Text(
        "标注是互相重叠的等级集合，或只有一个集合，不是有序的档",
        "the labels are sets of grades that overlap, or one alone: they are no ordered levels",
    ),
    "score": Text(
        "单 logit 的模型只给顺序，校准（qt-bert calibrate）之后才有等级",
        "a one-logit model gives an order, no grades, until it is calibrated (qt-bert calibrate)",
    ),
    "numbers": Text(
        "标注是数值，不是等级，只能评顺序",
        "the labels are numbers, not grades: only the order can be judged",
    ),
}
NO_ORDER = "no query has titles of two grades"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric, for command line, report, documents and code.

    `direction`: which values are better (`zero`: nearest to 0); `modes`: those of `Judgements` in which
    it is defined; `undefined`: the reason where the data give no value; `per_query`: it uses eligible
    queries alone (`n_eligible`), those with two different labels. `biased`: a few pairs give too large a value, so
    that its interval is the basic bootstrap's, from 0 on (Davison & Hinkley 1997, 5.2). `of_ranks`, for metrics that
    rank all pairs: the same value as sums over queries, from scores that are ranks.
    """

    name: str
    title: Text
    description: Text
    estimator: Callable[[Judgements], Estimator]
    direction: Literal["higher", "lower", "zero"] = "higher"
    ranking: bool = False
    modes: frozenset[Mode] = LEVELLED
    undefined: str = "no pair to judge"
    per_query: bool = False
    biased: bool = False
    of_ranks: Callable[[Judgements], Estimator] | None = None

    def refusal(self, judgements: Judgements) -> str | None:
        """Why the metric is not defined for this kind of model and labels; None if it is."""
        return None if judgements.mode in self.modes else REASONS[judgements.mode].en

    def value(self, judgements: Judgements) -> float | None:
        """The metric over all pairs; None where it is not defined."""
        if self.refusal(judgements):
            return None
        value = float(self.estimator(judgements)(judgements.weights[None])[0])
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


def bootstrap(
    judgements: Judgements, metrics: Sequence[Metric], resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Each metric over all pairs [metrics], and under resamples of the queries [metrics, resamples]; each query
    counts with its weight."""
    estimators = [metric.estimator(judgements) for metric in metrics]
    drawn = bootstrap_weights(judgements.n_queries, resamples, seed, width=len(judgements))
    values = resample(estimators, iter([judgements.weights[None]])).ravel()
    return values, resample(estimators, (rows * judgements.weights for rows in drawn))


def sums_by_query(judgements: Judgements, *columns: npt.NDArray[np.generic]) -> FloatArray:
    """Sum of each column [n] over the pairs of each query [Q, columns]."""
    index, n_queries = judgements.query_index, judgements.n_queries
    return np.stack([sum_by(index, column, n_queries) for column in columns], axis=1)


def quotient(sums: FloatArray) -> FloatArray:
    """First column over second [R, 2] -> [R]."""
    return ratio(sums[:, 0], sums[:, 1])


# The predicted class, blind to the order of the grades; and how far it lies from the label.


def confusion_by_query(judgements: Judgements) -> FloatArray:
    """Confusion matrix of each query, rows the truth, flattened: [Q, L * L]."""
    n_levels = len(judgements.levels)
    cell = known(judgements.truth) * n_levels + known(judgements.predicted)
    return count_cells(judgements.query_index, cell, judgements.n_queries, n_levels**2)


def as_matrices(flat: FloatArray) -> FloatArray:
    """[R, L * L] as [R, L, L]: rows the truth, columns the prediction."""
    n_levels = int(np.sqrt(flat.shape[1]))
    return flat.reshape(len(flat), n_levels, n_levels)


def of_confusions(
    formula: Callable[[FloatArray], FloatArray],
) -> Callable[[Judgements], Estimator]:
    """An estimator that is a `formula` of the confusion matrices [R, L, L]."""
    return additive(confusion_by_query, lambda flat: formula(as_matrices(flat)))


def f1_scores(confusions: FloatArray) -> FloatArray:
    """F1 of each level [R, L, L] -> [R, L]; NaN for one neither present nor predicted."""
    right = np.diagonal(confusions, axis1=1, axis2=2)
    return ratio(2 * right, confusions.sum(axis=1) + confusions.sum(axis=2))


def weighted_kappa(confusions: FloatArray, penalty: FloatArray | None = None) -> FloatArray:
    """Cohen's κ [R, L, L] -> [R] under `penalty` [L, L], by default the squared distance of the
    levels; NaN where chance alone would cost nothing, as where all sits in one level.

    J. Cohen, "Weighted kappa", Psychological Bulletin 70 (1968).
    """
    penalty = _distances(confusions.shape[1]) ** 2 if penalty is None else penalty
    total = confusions.sum(axis=(1, 2))
    by_chance = np.einsum("ri,rj,ij->r", confusions.sum(2), confusions.sum(1), penalty)
    observed = np.einsum("rij,ij->r", confusions, penalty)
    return 1.0 - ratio(observed * total, by_chance)


def _macro_mae(confusions: FloatArray) -> FloatArray:
    total = np.einsum("rij,ij->ri", confusions, _distances(confusions.shape[1]))
    return mean_known(ratio(total, confusions.sum(axis=2)))


def _distances(n_levels: int) -> FloatArray:
    """|i − j| [L, L]."""
    level = np.arange(float(n_levels))
    return np.abs(level[:, None] - level)


def _steps_off(judgements: Judgements) -> IntArray:
    """|predicted − true| of each pair, in levels [n]."""
    return np.asarray(np.abs(known(judgements.predicted) - known(judgements.truth)))


CLASS_METRICS = (
    Metric(
        name="accuracy",
        title=Text("准确率", "accuracy"),
        description=Text(
            "预测等级与标注一致的比例；标注是等级集合时，预测落在集合内即算对。",
            "Share of pairs whose predicted grade is the label, or lies in the label's set.",
        ),
        modes=GRADED,
        estimator=mean_of(lambda judgements: known(judgements.correct)),
    ),
    Metric(
        name="macro_f1",
        title=Text("宏平均 F1", "macro-F1"),
        description=Text(
            "各等级 F1 的平均；标注与预测中都没有的等级不计入。",
            "Mean F1 over the grades that occur among labels or predictions.",
        ),
        estimator=of_confusions(lambda confusions: mean_known(f1_scores(confusions))),
    ),
    Metric(
        name="qwk",
        title=Text("二次加权 κ", "quadratic weighted kappa"),
        description=Text(
            "扣除偶然一致后的等级一致性，偏差按平方计罚。",
            "Agreement of predicted and true grade beyond chance, errors weighing as their square.",
        ),
        estimator=of_confusions(weighted_kappa),
        undefined="all labels and predictions are one grade",
    ),
    Metric(
        name="mae",
        title=Text("平均绝对误差", "mean absolute error"),
        description=Text(
            "预测等级与标注平均相差几级。",
            "Mean number of grades between the predicted grade and the label.",
        ),
        direction="lower",
        estimator=mean_of(_steps_off),
    ),
    Metric(
        name="macro_mae",
        title=Text("宏平均绝对误差", "macro-averaged MAE"),
        description=Text(
            "先在每个标注等级内求平均绝对误差，再对各等级平均，不受等级数量不均的影响。",
            "Mean over the labelled grades of the mean absolute error within each grade.",
        ),
        direction="lower",
        estimator=of_confusions(_macro_mae),
    ),
    Metric(
        name="within_one",
        title=Text("一级以内", "within one grade"),
        description=Text(
            "预测等级与标注相差不超过一级的比例。",
            "Share of pairs predicted at most one grade off.",
        ),
        estimator=mean_of(lambda judgements: _steps_off(judgements) <= 1),
    ),
    Metric(
        name="bias",
        title=Text("偏差", "bias"),
        description=Text(
            "期望等级减标注的平均值，正值表示整体打高。",
            "Mean of expected grade minus label: above zero the model grades too high.",
        ),
        direction="zero",
        estimator=mean_of(lambda judged: judged.expected - known(judged.truth) - 1.0),
    ),
    Metric(
        name="far_errors",
        title=Text("远错率", "far errors"),
        description=Text(
            "预测等级与标注相差两级或更多的比例。",
            "Share of pairs predicted two or more grades off.",
        ),
        direction="lower",
        estimator=mean_of(lambda judgements: _steps_off(judgements) >= 2),
    ),
    Metric(
        name="over_graded",
        title=Text("高判率", "over-graded"),
        description=Text(
            "预测等级高于标注的比例。", "Share of pairs whose predicted grade lies above the label."
        ),
        direction="lower",
        estimator=mean_of(lambda judged: known(judged.predicted) > known(judged.truth)),
    ),
    Metric(
        name="under_graded",
        title=Text("低判率", "under-graded"),
        description=Text(
            "预测等级低于标注的比例。", "Share of pairs whose predicted grade lies below the label."
        ),
        direction="lower",
        estimator=mean_of(lambda judged: known(judged.predicted) < known(judged.truth)),
    ),
)


# NDCG at a depth, expected over the random order of titles whose scores tie.
#
# K. Järvelin and J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 20 (2002);
# ties after F. McSherry and M. Najork, "Computing information retrieval performance measures
# efficiently in the presence of tied scores", ECIR 2008.


def dcg_by_query(
    query: IntArray, n_queries: int, score: FloatArray, gain: FloatArray, depth: int
) -> FloatArray:
    """Discounted cumulated gain of each query's `depth` best-scored titles [Q], ties averaged."""
    order, position, tie = ranked_titles(query, score)
    discount = np.where(position < depth, 1 / np.log2(position + 2), 0.0)
    mean_gain = sum_by(tie, gain[order], len(query))[tie] / np.bincount(tie)[tie]
    return sum_by(query[order], mean_gain * discount, n_queries)


def ranked_titles(query: IntArray, score: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """The order of titles by query, best score first [n]; in it each one's position from 0 in its query,
    and the number of its group of equal scores."""
    order = np.lexsort((-score, query))
    query, score = query[order], score[order]
    position = np.arange(len(query)) - np.searchsorted(query, query, side="left")
    changes = (np.diff(query) != 0) | (np.diff(score) != 0)
    return order, position, np.concatenate(([0], np.cumsum(changes)))


def exponential_gain(truth: FloatArray) -> FloatArray:
    """2^(g−1) − 1."""
    return np.asarray(np.exp2(truth - 1) - 1)


def ndcg_by_query(
    judgements: Judgements, gain_of: Callable[[FloatArray], FloatArray], depth: int
) -> FloatArray:
    """NDCG of each eligible query beside a 1, and two zeros for the others [Q, 2]."""
    query, n_queries = judgements.query_index, judgements.n_queries
    truth = judgements.ranking_truth
    gain = truth if judgements.mode == "numbers" else gain_of(truth)  # numbers are gains themselves
    actual = dcg_by_query(query, n_queries, judgements.ranking_score, gain, depth)
    ideal = dcg_by_query(query, n_queries, gain, gain, depth)
    eligible = judgements.eligible & (ideal > 0)
    value = np.where(eligible, ratio(actual, ideal), 0.0)
    return np.stack([value, eligible.astype(np.float64)], axis=1)


def _ndcg(
    prefix: str, formula: str, gain_of: Callable[[FloatArray], FloatArray], depth: int
) -> Metric:
    linear = prefix == "ndcg_linear_at"
    return Metric(
        name=f"{prefix}_{depth}",
        title=Text(
            f"{'线性 ' * linear}NDCG@{depth}",
            f"NDCG@{depth}{' linear' * linear}",
        ),
        description=Text(
            f"每个查询前 {depth} 条的归一化折损累积增益（增益 {formula}，同分取平均）。",
            f"Normalised discounted cumulated gain of the first {depth} titles of a query, "
            f"gain {formula}, averaged over the orders of tied scores.",
        ),
        ranking=True,
        modes=ANY if linear else WITH_GRADES,
        estimator=additive(lambda judged: ndcg_by_query(judged, gain_of, depth), quotient),
        undefined=NO_ORDER,
        per_query=True,
    )


NDCG_METRICS = tuple(
    _ndcg(prefix, formula, gain_of, depth)
    for prefix, formula, gain_of in (
        ("ndcg_at", "2^(g−1)−1", exponential_gain),
        ("ndcg_linear_at", "g−1", lambda truth: truth - 1),
    )
    for depth in (1, 3, 5, 10)
)


# The ranks of relevant titles, as trec_eval counts them: a query without a relevant title gives 0, and
# unjudged titles take places. Of equal scores the mean over their orders (McSherry and Najork, as above).


def relevant_by_query(judgements: Judgements, depth: int) -> FloatArray:
    """Average precision, 1 / rank of the first relevant title and the share of the relevant ones, the last two
    among the first `depth`, and a 1, of each query [Q, 4]."""
    order, position, tie = ranked_titles(judgements.query_index, judgements.ranking_score)
    n_queries, start = judgements.n_queries, np.unique(tie, return_index=True)[1]
    query = judgements.query_index[order[start]]
    hits = sum_by(tie, (judgements.ranking_truth >= judgements.auc_cut)[order], len(start))
    total, seen = np.maximum(sum_by(query, hits, n_queries), 1), hits.cumsum() - hits
    before, ranks = seen - seen[np.searchsorted(query, query)], position[start]
    size = np.bincount(tie)
    if judgements.unjudged is not None:
        ahead, tied = judgements.unjudged[order[start]].T
        ranks, size = ranks + ahead, size + tied
    # Each group of equal scores, written out: a row for each of its places.
    group = np.repeat(np.arange(len(start)), size)
    place = np.arange(len(group)) - (size.cumsum() - size)[group]
    query, size, hits, before = query[group], size[group], hits[group], before[group]
    rank = ranks[group] + place + 1
    precision = (1 + before + place * (hits - 1) / np.maximum(size - 1, 1)) / rank
    # The chance that the first of the tied relevant titles takes this place, which leaves `left` behind it.
    others = (size - hits).astype(np.int64)
    left = np.maximum(others - place, 0)
    logs = np.concatenate(([0.0], np.log(np.arange(1, size.max() + 1)).cumsum()))  # of factorials
    ways = logs[size - place - 1] - logs[left] - logs[size] + logs[others]
    first = np.where((before == 0) & (others >= place), hits * np.exp(ways), 0.0) / rank
    near, share = rank <= depth, hits / size
    average = sum_by(query, share * precision, n_queries) / total
    recall = sum_by(query, near * share, n_queries) / total
    reciprocal = sum_by(query, near * first, n_queries)
    return np.stack([average, reciprocal, recall, np.ones(n_queries)], axis=1)


def _of_relevant(name: str, title: str, column: int, depth: int, zh: str, en: str) -> Metric:
    return Metric(
        name=name,
        title=Text(title, title),
        description=Text(zh, en),
        ranking=True,
        modes=WITH_GRADES,
        estimator=additive(lambda j: relevant_by_query(j, depth)[:, [column, 3]], quotient),
    )


# fmt: off
RELEVANCE_METRICS = (
    _of_relevant("mrr_at_10", "MRR@10", 1, 10, "每个查询第一条相关标题名次的倒数（前 10 条没有则为 0）的平均。",
                 "Mean over queries of 1 / rank of the first relevant title, 0 beyond the tenth."),
    _of_relevant("map", "MAP", 0, 1, "每个查询在各条相关标题处的精确率的平均，再对查询平均。",
                 "Mean over queries of the mean precision at their relevant titles."),
    *(_of_relevant(f"recall_at_{k}", f"recall@{k}", 2, k, f"相关标题中排在前 {k} 条的比例，对查询平均。",
                   f"Mean over queries of the share of their relevant titles among the first {k}.")
      for k in (5, 10)),
)
# fmt: on


# Pairs of titles of one query with different labels: which one scores higher.


CONCORDANT, DISCORDANT, TIED = range(3)


def ordered_pairs_by_query(judgements: Judgements) -> FloatArray:
    """Concordant, discordant and score-tied title pairs of different truth in each query [Q, 3].

    Memory stays linear in n: for every level, the titles of that level below each better title
    are read off one cumulated count along the order of scores. A level is a rank within the query, for
    numbers may all be different.
    """
    by_truth, _, steps = ranked_titles(judgements.query_index, -judgements.ranking_truth)
    of, level = judgements.query_index[by_truth], np.empty(len(by_truth), dtype=np.int64)
    level[by_truth] = steps - steps[np.searchsorted(of, of)]
    order, _, tie = ranked_titles(judgements.query_index, judgements.ranking_score)
    query, truth = judgements.query_index[order], level[order]
    query_start, query_end = (np.searchsorted(query, query, side=s) for s in ("left", "right"))
    tie_start, tie_end = (np.searchsorted(tie, tie, side=s) for s in ("left", "right"))
    counts = np.zeros((judgements.n_queries, 3))
    for lower in range(level.max()):
        seen = np.concatenate(([0], np.cumsum(truth == lower)))
        better = truth > lower
        for column, (start, end) in enumerate(
            ((tie_end, query_end), (query_start, tie_start), (tie_start, tie_end))
        ):
            counted = np.where(better, seen[end] - seen[start], 0)
            counts[:, column] += sum_by(query, counted, judgements.n_queries)
    return counts


ORDERED_PAIR_METRICS = (
    Metric(
        name="pnr",
        title=Text("正逆序比", "positive-negative ratio"),
        description=Text(
            "同一查询下，标题对排对的数目除以排反的数目；同分单列，不计入两边。",
            "Title pairs of a query in the right order over those in the wrong one; ties in neither.",
        ),
        ranking=True,
        modes=ANY,
        estimator=additive(
            ordered_pairs_by_query, lambda n: ratio(n[:, CONCORDANT], n[:, DISCORDANT])
        ),
        undefined="no pair of titles is in the wrong order",
        per_query=True,
    ),
    Metric(
        name="pairwise_accuracy",
        title=Text("成对准确率", "pairwise accuracy"),
        description=Text(
            "同一查询下不同等级的标题对中，更好的一条得分更高的比例；同分算一半。",
            "Share of a query's title pairs of different grade whose better title scores higher, "
            "ties counting half.",
        ),
        ranking=True,
        modes=ANY,
        estimator=additive(
            ordered_pairs_by_query,
            lambda n: ratio(n[:, CONCORDANT] + n[:, TIED] / 2, n.sum(axis=1)),
        ),
        undefined=NO_ORDER,
        per_query=True,
    ),
)


# The order of all pairs, whatever their query: AUC at a cut, Spearman's ρ.
#
# Under query weights a pair counts as often as its query was drawn; its rank among the copies is
# the weighted mid-rank, read off cumulated weights along one order that is sorted only once.


class TieGroups:
    """Equal values of `values` [n] form groups 0..G-1, lowest first.

    `group` [n] is the group of each value; `order` [n] sorts them, and in that order group g
    begins at `start` [G].
    """

    def __init__(self, values: FloatArray) -> None:
        _, self.group, size = np.unique(values, return_inverse=True, return_counts=True)
        self.start = np.concatenate(([0], np.cumsum(size)[:-1]))
        self.order = np.argsort(self.group, kind="stable")

    def totals(self, ordered_weights: FloatArray) -> FloatArray:
        """Weight of each group [R, G], from the weights in `order` [R, n]."""
        if len(self.start) == len(self.order):
            return ordered_weights
        return np.add.reduceat(ordered_weights, self.start, axis=1)


def _centred_ranks(totals: FloatArray) -> FloatArray:
    """Weighted mid-rank of each group less the mean rank, from their `totals` [R, G]."""
    cumulated = totals.cumsum(axis=1)
    return cumulated - totals / 2 - cumulated[:, -1:] / 2


def _spearman(judgements: Judgements) -> Estimator:
    """Pearson's correlation of weighted mid-ranks of score and target."""
    score, target = map(TieGroups, (judgements.ranking_score, judgements.spearman_target))
    by_score, by_target = (judgements.query_index[ranks.order] for ranks in (score, target))
    score_group, target_group = score.group[score.order], target.group[score.order]

    def estimate(query_weights: FloatArray) -> FloatArray:
        weights, target_weights = query_weights[:, by_score], query_weights[:, by_target]
        by_x, by_y = score.totals(weights), target.totals(target_weights)
        x, y = _centred_ranks(by_x), _centred_ranks(by_y)
        x_variance = np.einsum("rg,rg,rg->r", by_x, x, x)
        y_variance = np.einsum("rg,rg,rg->r", by_y, y, y)
        covariance = np.einsum("rn,rn,rn->r", weights, x[:, score_group], y[:, target_group])
        # Equal orders may lie beyond 1 by rounding.
        return np.clip(ratio(covariance, np.sqrt(x_variance) * np.sqrt(y_variance)), -1.0, 1.0)

    return estimate


def _auc(judgements: Judgements) -> Estimator:
    """Share of (relevant, other) couples whose relevant pair scores higher, ties half."""
    score = TieGroups(judgements.ranking_score)
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


RANK_METRICS = (
    Metric(
        name="auc",
        title=Text("AUC", "AUC at a cut"),
        description=Text(
            "任取一条达到分界等级和一条未达到的（不限查询），前者得分更高的概率；同分算一半。",
            "Chance that a pair graded at or above the cut scores higher than one below it, "
            "whatever their queries, ties counting half.",
        ),
        ranking=True,
        modes=WITH_GRADES,
        estimator=_auc,
        of_ranks=additive(_mean_rank_statistics, _mean_rank_auc),
        undefined="all labels lie on one side of the cut",
    ),
    Metric(
        name="spearman",
        title=Text("Spearman 相关", "Spearman's rho"),
        description=Text(
            "排序分（期望等级）与标注在全部样本上的秩相关。",
            "Rank correlation of the score (expected grade) with the label over all pairs.",
        ),
        ranking=True,
        modes=ANY,
        estimator=_spearman,
        of_ranks=additive(_pearson_statistics, _pearson),
        undefined="the scores or the labels are all equal",
    ),
)


# The probabilities themselves: calibration error, Brier score, log loss.


BINS = 15
LEAST_PROBABILITY = np.finfo(np.float64).tiny


def confidence(judgements: Judgements) -> FloatArray:
    """Probability of the predicted level [n]."""
    table = known(judgements.level_probabilities)
    return np.take_along_axis(table, known(judgements.predicted)[:, None], axis=1)[:, 0]


def confidence_bin(confidences: FloatArray) -> IntArray:
    """Which of 15 equal bins (a, b] of [0, 1] each confidence lies in [n]."""
    places = np.round(confidences * BINS, 9)  # a .6 of a softmax may lie beyond .6
    return np.clip(np.ceil(places).astype(np.int64) - 1, 0, BINS - 1)


def _calibration_gaps(judgements: Judgements) -> FloatArray:
    """Σ (confidence − correct) of each query in each bin, then its number of pairs [Q, 16]."""
    n_queries, sure = judgements.n_queries, confidence(judgements)
    cell = judgements.query_index * BINS + confidence_bin(sure)
    gaps = sum_by(cell, sure - known(judgements.correct), n_queries * BINS)
    counts = sums_by_query(judgements, np.ones(len(judgements)))
    return np.concatenate([gaps.reshape(n_queries, BINS), counts], axis=1)


def _brier_score(judgements: Judgements) -> FloatArray:
    """Squared distance of the level probabilities from the labelled level [n], 0..2."""
    table = known(judgements.level_probabilities)
    hit = np.arange(table.shape[1]) == known(judgements.truth)[:, None]
    return np.asarray(np.square(table - hit).sum(axis=1))


def log_loss(judgements: Judgements) -> FloatArray:
    """−log Σ p over the label's set [n], in nats; a p of zero counts as the least float64."""
    return -np.log(np.maximum(known(judgements.label_probability), LEAST_PROBABILITY))


PROBABILITY_METRICS = (
    Metric(
        name="ece",
        title=Text("期望校准误差", "expected calibration error"),
        description=Text(
            "按最高概率分 15 档，各档平均概率与准确率之差的加权平均。样本少时偏大，区间已作修正，可能不含该值。",
            "Mean gap between top probability and accuracy over 15 equal bins, weighted by size. Too large where pairs "
            "are few: its interval is corrected for that, and may lie below it.",
        ),
        direction="lower",
        biased=True,
        estimator=additive(
            _calibration_gaps, lambda s: ratio(np.abs(s[:, :BINS]).sum(axis=1), s[:, BINS])
        ),
    ),
    Metric(
        name="brier",
        title=Text("Brier 分", "Brier score"),
        description=Text(
            "各等级概率与标注（0/1）之差的平方和，取平均。",
            "Mean sum over the grades of the squared gap between probability and label.",
        ),
        direction="lower",
        estimator=mean_of(_brier_score),
    ),
    Metric(
        name="nll",
        title=Text("负对数似然", "negative log-likelihood"),
        description=Text(
            "标注所含等级的概率之和取负对数（自然对数），再平均。",
            "Mean of −log of the probability given to the label's set, in nats.",
        ),
        direction="lower",
        estimator=mean_of(log_loss),
    ),
)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *CLASS_METRICS,
        *NDCG_METRICS,
        *RELEVANCE_METRICS,
        *ORDERED_PAIR_METRICS,
        *RANK_METRICS,
        *PROBABILITY_METRICS,
    )
}
