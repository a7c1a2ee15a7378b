"""The registry of metrics: command line, report and documents list what stands here."""

from __future__ import annotations

from qt_bert.evaluation.metrics import classes, ndcg, ordered_pairs, ordinal, probability, ranks
from qt_bert.evaluation.metrics.metric import Metric

METRICS: dict[str, Metric] = {
    metric.name: metric
    for theme in (classes, ordinal, ndcg, ordered_pairs, ranks, probability)
    for metric in theme.METRICS
}

__all__ = ["METRICS", "Metric"]
