"""Metrics of the predicted class, and of how far it lies from the label in steps of the scale."""

from __future__ import annotations

import numpy as np

from qt_bert.stats.arrays import FloatArray, IntArray, count_cells, ratio
from qt_bert.stats.judgements import Judgements, known
from qt_bert.stats.metrics.metric import GRADED, LEVELLED, Metric, Text, additive, mean_of

# Metrics of the predicted class, blind to the order of the grades.


def confusion_by_query(judgements: Judgements) -> FloatArray:
    """Confusion matrix of each query, rows the truth, flattened: [Q, L * L]."""
    n_levels = len(judgements.levels)
    cell = known(judgements.truth) * n_levels + known(judgements.predicted)
    return count_cells(judgements.query_index, cell, judgements.n_queries, n_levels**2)


def as_matrices(flat: FloatArray) -> FloatArray:
    """[R, L * L] as [R, L, L]: rows the truth, columns the prediction."""
    n_levels = int(np.sqrt(flat.shape[1]))
    return flat.reshape(len(flat), n_levels, n_levels)


def f1_scores(confusions: FloatArray) -> FloatArray:
    """F1 of each level [R, L, L] -> [R, L]; NaN for one neither present nor predicted."""
    right = np.diagonal(confusions, axis1=1, axis2=2)
    return ratio(2 * right, confusions.sum(axis=1) + confusions.sum(axis=2))


def mean_defined(values: FloatArray) -> FloatArray:
    """Mean of the values that are not NaN [R, L] -> [R]."""
    defined = ~np.isnan(values)
    return ratio(np.where(defined, values, 0.0).sum(axis=1), defined.sum(axis=1).astype(float))


ACCURACY = Metric(
    name="accuracy",
    title=Text("准确率", "accuracy"),
    description=Text(
        "预测等级与标注一致的比例；标注是等级集合时，预测落在集合内即算对。",
        "Share of pairs whose predicted grade is the label, or lies in the label's set.",
    ),
    direction="higher",
    range=(0, 1),
    needs="class",
    modes=GRADED,
    estimator=mean_of(lambda judgements: known(judgements.correct)),
)

MACRO_F1 = Metric(
    name="macro_f1",
    title=Text("宏平均 F1", "macro-F1"),
    description=Text(
        "各等级 F1 的平均；标注与预测中都没有的等级不计入。",
        "Mean F1 over the grades that occur among labels or predictions.",
    ),
    direction="higher",
    range=(0, 1),
    needs="class",
    modes=LEVELLED,
    estimator=additive(confusion_by_query, lambda flat: mean_defined(f1_scores(as_matrices(flat)))),
)

CLASS_METRICS = (ACCURACY, MACRO_F1)


# Metrics of how far the prediction lies from the label, in steps of the scale.


def steps_off(judgements: Judgements) -> IntArray:
    """|predicted − true| of each pair, in levels [n]."""
    return np.asarray(np.abs(known(judgements.predicted) - known(judgements.truth)))


def expected_error(judgements: Judgements) -> FloatArray:
    """Expected − true value of each pair, in levels [n]."""
    return judgements.expected - known(judgements.truth) - 1.0


def weighted_kappa(confusions: FloatArray) -> FloatArray:
    """Cohen's κ with quadratic weights [R, L, L] -> [R]; NaN where all sits in one level.

    J. Cohen, "Weighted kappa", Psychological Bulletin 70 (1968).
    """
    penalty = _distances(confusions.shape[1]) ** 2
    total = confusions.sum(axis=(1, 2))
    by_chance = np.einsum("ri,rj,ij->r", confusions.sum(2), confusions.sum(1), penalty)
    observed = np.einsum("rij,ij->r", confusions, penalty)
    return 1.0 - ratio(observed * total, by_chance)


def _macro_mae(flat: FloatArray) -> FloatArray:
    confusions = as_matrices(flat)
    total = np.einsum("rij,ij->ri", confusions, _distances(confusions.shape[1]))
    return mean_defined(ratio(total, confusions.sum(axis=2)))


def _distances(n_levels: int) -> FloatArray:
    """|i − j| [L, L]."""
    level = np.arange(float(n_levels))
    return np.abs(level[:, None] - level)


QWK = Metric(
    name="qwk",
    title=Text("二次加权 κ", "quadratic weighted kappa"),
    description=Text(
        "扣除偶然一致后的等级一致性，偏差按平方计罚。",
        "Agreement of predicted and true grade beyond chance, errors weighing as their square.",
    ),
    direction="higher",
    range=(-1, 1),
    needs="ordinal",
    modes=LEVELLED,
    estimator=additive(confusion_by_query, lambda flat: weighted_kappa(as_matrices(flat))),
    undefined="all labels and predictions are one grade",
)

MAE = Metric(
    name="mae",
    title=Text("平均绝对误差", "mean absolute error"),
    description=Text(
        "预测等级与标注平均相差几级。",
        "Mean number of grades between the predicted grade and the label.",
    ),
    direction="lower",
    range=(0, None),
    needs="ordinal",
    modes=LEVELLED,
    estimator=mean_of(steps_off),
)

MACRO_MAE = Metric(
    name="macro_mae",
    title=Text("宏平均绝对误差", "macro-averaged MAE"),
    description=Text(
        "先在每个标注等级内求平均绝对误差，再对各等级平均，不受等级数量不均的影响。",
        "Mean over the labelled grades of the mean absolute error within each grade.",
    ),
    direction="lower",
    range=(0, None),
    needs="ordinal",
    modes=LEVELLED,
    estimator=additive(confusion_by_query, _macro_mae),
)

WITHIN_ONE = Metric(
    name="within_one",
    title=Text("一级以内", "within one grade"),
    description=Text(
        "预测等级与标注相差不超过一级的比例。",
        "Share of pairs predicted at most one grade off.",
    ),
    direction="higher",
    range=(0, 1),
    needs="ordinal",
    modes=LEVELLED,
    estimator=mean_of(lambda judgements: steps_off(judgements) <= 1),
)

BIAS = Metric(
    name="bias",
    title=Text("偏差", "bias"),
    description=Text(
        "期望等级减标注的平均值，正值表示整体打高。",
        "Mean of expected grade minus label: above zero the model grades too high.",
    ),
    direction="zero",
    range=(None, None),
    needs="ordinal",
    modes=LEVELLED,
    estimator=mean_of(expected_error),
)

FAR_ERRORS = Metric(
    name="far_errors",
    title=Text("远错率", "far errors"),
    description=Text(
        "预测等级与标注相差两级或更多的比例。",
        "Share of pairs predicted two or more grades off.",
    ),
    direction="lower",
    range=(0, 1),
    needs="ordinal",
    modes=LEVELLED,
    estimator=mean_of(lambda judgements: steps_off(judgements) >= 2),
)

ORDINAL_METRICS = (QWK, MAE, MACRO_MAE, WITHIN_ONE, BIAS, FAR_ERRORS)
