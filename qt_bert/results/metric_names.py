"""The metrics of the evaluation by the names that a reader knows."""

from __future__ import annotations

from qt_bert.evaluation import METRICS
from qt_bert.results.text import Text


def metric_name(metric: str) -> Text:
    """Its display name. Raises KeyError for no metric of the registry."""
    return Text(*METRICS[metric].title)
