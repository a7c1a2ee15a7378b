"""The four numbers that stay in view."""

from __future__ import annotations

from qt_bert.report.blocks import Card
from qt_bert.report.evaluation.words import HEADLINES, as_interval, base
from qt_bert.results import EvaluationResult


def summary_cards(evaluation: EvaluationResult) -> tuple[Card, ...]:
    """Accuracy, QWK, Spearman and NDCG@5, where the evaluation has them."""
    return tuple(
        Card(title=title, value=as_interval(metric), base=base(metric))
        for name, title in HEADLINES.items()
        if (metric := evaluation.metrics.get(name)) is not None
    )
