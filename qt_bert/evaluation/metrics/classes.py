"""Metrics of the predicted class, blind to the order of the grades."""

from __future__ import annotations

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, count_cells, ratio
from qt_bert.evaluation.judgements import Judgements, known
from qt_bert.evaluation.metrics.metric import GRADED, LEVELLED, Metric, Text, additive, mean_of


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

METRICS = (ACCURACY, MACRO_F1)
