"""Bars by category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qt_bert.results.figures.base import BaseFigure, check_length
from qt_bert.results.text import Label, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSeries:
    """One bar a category; `intervals`, where given, holds (low, high) or `None` for each."""

    name: Label
    values: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(BaseFigure):
    """One group of bars a category, for instance grades before and after heads are left out."""

    kind: ClassVar[str] = "bars"
    name: str
    title: Text
    x_label: Label
    y_label: Label
    unit: Label
    categories: tuple[Label, ...]
    series: tuple[BarSeries, ...]
    digits: int = 2
    note: Text | None = None

    def __post_init__(self) -> None:
        for series in self.series:
            check_length(self, "values", series.values, len(self.categories))
            if series.intervals is not None:
                check_length(self, "intervals", series.intervals, len(self.categories))
