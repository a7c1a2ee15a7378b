"""Tables beside the metrics: confusion, figures of each grade, reliability, furthest pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from qt_bert.evaluation.arrays import IntArray, fractional_ranks, ratio, sum_by
from qt_bert.evaluation.judgements import Judgements, known
from qt_bert.evaluation.metrics.classes import as_matrices, confusion_by_query, f1_scores
from qt_bert.evaluation.metrics.ordered_pairs import ordered_pairs_by_query
from qt_bert.evaluation.metrics.probability import BINS, confidence, confidence_bin


def confusion(judgements: Judgements) -> IntArray:
    """Numbers of pairs [L, L], rows the label, columns the prediction."""
    total = confusion_by_query(judgements).sum(axis=0)
    return np.asarray(as_matrices(total[None])[0], dtype=np.int64)


def per_grade(judgements: Judgements) -> list[dict[str, Any]]:
    """`{level, precision, recall, f1, support, predicted}` of each level; None for 0/0."""
    counts = confusion(judgements).astype(np.float64)
    right, support, predicted = np.diagonal(counts), counts.sum(axis=1), counts.sum(axis=0)
    columns = (ratio(right, predicted), ratio(right, support), f1_scores(counts[None])[0])
    return [
        {
            "level": level,
            "precision": number_or_none(columns[0][i]),
            "recall": number_or_none(columns[1][i]),
            "f1": number_or_none(columns[2][i]),
            "support": int(support[i]),
            "predicted": int(predicted[i]),
        }
        for i, level in enumerate(judgements.levels)
    ]


def reliability(judgements: Judgements) -> list[dict[str, Any]]:
    """`{low, high, confidence, accuracy, count}` of each of the 15 bins of the ECE."""
    sure = confidence(judgements)
    bins = confidence_bin(sure)
    count = np.bincount(bins, minlength=BINS)
    mean_confidence = ratio(sum_by(bins, sure, BINS), count.astype(np.float64))
    accuracy = ratio(sum_by(bins, known(judgements.correct), BINS), count.astype(np.float64))
    return [
        {
            "low": i / BINS,
            "high": (i + 1) / BINS,
            "confidence": number_or_none(mean_confidence[i]),
            "accuracy": number_or_none(accuracy[i]),
            "count": int(count[i]),
        }
        for i in range(BINS)
    ]


def pnr_counts(judgements: Judgements) -> dict[str, int]:
    """Title pairs of one query and different labels: concordant, discordant, tied in score."""
    totals = ordered_pairs_by_query(judgements).sum(axis=0)
    return dict(zip(("concordant", "discordant", "tied"), map(int, totals), strict=True))


def furthest_off(judgements: Judgements, limit: int) -> IntArray:
    """Indices of the pairs whose score lies furthest from the label, worst first [≤ limit].

    The distance is that of the expected grade (or level) from the label; for a one-logit model,
    whose scale says nothing, that of the two ranks.
    """
    if judgements.truth is not None:
        distance = judgements.expected - judgements.truth - 1.0
    elif judgements.mode == "overlapping":
        distance = judgements.ranking_score - judgements.ranking_truth
    else:
        ranks = map(fractional_ranks, (judgements.ranking_score, judgements.ranking_truth))
        distance = np.subtract(*ranks)
    return np.argsort(-np.abs(distance), kind="stable")[: max(limit, 0)]


def number_or_none(value: float) -> float | None:
    """A plain float for JSON; None for NaN."""
    return None if np.isnan(value) else float(value)
