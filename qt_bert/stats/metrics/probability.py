"""Metrics of the probabilities themselves: calibration error, Brier score, log loss."""

from __future__ import annotations

import numpy as np

from qt_bert.stats.arrays import FloatArray, IntArray, ratio, sum_by
from qt_bert.stats.judgements import Judgements, known
from qt_bert.stats.metrics.metric import LEVELLED, Metric, Text, additive, mean_of, sums_by_query

BINS = 15
LEAST_PROBABILITY = np.finfo(np.float64).tiny


def confidence(judgements: Judgements) -> FloatArray:
    """Probability of the predicted level [n]."""
    table = known(judgements.level_probabilities)
    return np.take_along_axis(table, known(judgements.predicted)[:, None], axis=1)[:, 0]


def confidence_bin(confidences: FloatArray) -> IntArray:
    """Which of 15 equal bins (a, b] of [0, 1] each confidence lies in [n]."""
    return np.clip(np.ceil(confidences * BINS).astype(np.int64) - 1, 0, BINS - 1)


def _calibration_gaps(judgements: Judgements) -> FloatArray:
    """Σ (confidence − correct) of each query in each bin, then its number of pairs [Q, 16]."""
    n_queries, sure = judgements.n_queries, confidence(judgements)
    cell = judgements.query_index * BINS + confidence_bin(sure)
    gaps = sum_by(cell, sure - known(judgements.correct), n_queries * BINS)
    counts = sums_by_query(judgements, np.ones(len(judgements)))
    return np.concatenate([gaps.reshape(n_queries, BINS), counts], axis=1)


def _ece(sums: FloatArray) -> FloatArray:
    return ratio(np.abs(sums[:, :BINS]).sum(axis=1), sums[:, BINS])


def brier_score(judgements: Judgements) -> FloatArray:
    """Squared distance of the level probabilities from the labelled level [n], 0..2."""
    table = known(judgements.level_probabilities)
    hit = np.arange(table.shape[1]) == known(judgements.truth)[:, None]
    return np.asarray(np.square(table - hit).sum(axis=1))


def log_loss(judgements: Judgements) -> FloatArray:
    """−log Σ p over the label's set [n], in nats; a p of zero counts as the least float64."""
    return -np.log(np.maximum(known(judgements.label_probability), LEAST_PROBABILITY))


ECE = Metric(
    name="ece",
    title=Text("期望校准误差", "expected calibration error"),
    description=Text(
        "按最高概率分 15 档，各档平均概率与准确率之差的加权平均。",
        "Mean gap between top probability and accuracy over 15 equal bins, weighted by size.",
    ),
    direction="lower",
    range=(0, 1),
    needs="calibration",
    modes=LEVELLED,
    estimator=additive(_calibration_gaps, _ece),
)

BRIER = Metric(
    name="brier",
    title=Text("Brier 分", "Brier score"),
    description=Text(
        "各等级概率与标注（0/1）之差的平方和，取平均。",
        "Mean sum over the grades of the squared gap between probability and label.",
    ),
    direction="lower",
    range=(0, 2),
    needs="calibration",
    modes=LEVELLED,
    estimator=mean_of(brier_score),
)

NLL = Metric(
    name="nll",
    title=Text("负对数似然", "negative log-likelihood"),
    description=Text(
        "标注所含等级的概率之和取负对数（自然对数），再平均。",
        "Mean of −log of the probability given to the label's set, in nats.",
    ),
    direction="lower",
    range=(0, None),
    needs="calibration",
    modes=LEVELLED,
    estimator=mean_of(log_loss),
)

PROBABILITY_METRICS = (ECE, BRIER, NLL)
