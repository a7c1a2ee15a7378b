"""How many layers may read titles before the query comes, chosen on discovery."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from qt_bert.results.offline import MOST_LOST, OfflineRow

DECIDING = ("accuracy", "pairwise_accuracy", "spearman")
"""The metrics that may decide; the first that labels and model define does."""


def deciding_metric(defined: Collection[str]) -> str | None:
    """The metric that decides, of those that are defined; None where none of them is."""
    return next((metric for metric in DECIDING if metric in defined), None)


def largest_free(rows: Sequence[OfflineRow], metric: str | None) -> int | None:
    """The largest number of layers that loses less than `MOST_LOST` of the metric, by the upper end
    of the interval on discovery; None where none does."""
    if metric is None:
        return None
    free = [row.layers for row in rows if row.may_lose(metric) < MOST_LOST]
    return max(free, default=None)
