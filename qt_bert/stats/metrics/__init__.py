"""The registry of metrics: command line, report and documents list what stands here."""

from __future__ import annotations

from qt_bert.stats.metrics.classes import CLASS_METRICS, ORDINAL_METRICS
from qt_bert.stats.metrics.metric import Metric
from qt_bert.stats.metrics.probability import PROBABILITY_METRICS
from qt_bert.stats.metrics.ranking import NDCG_METRICS, ORDERED_PAIR_METRICS, RANK_METRICS

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *CLASS_METRICS,
        *ORDINAL_METRICS,
        *NDCG_METRICS,
        *ORDERED_PAIR_METRICS,
        *RANK_METRICS,
        *PROBABILITY_METRICS,
    )
}
