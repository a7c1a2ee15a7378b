"""Marks by two numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qt_bert.results.figures.base import BaseFigure, fault
from qt_bert.results.text import Label, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A thing at its place (x, y); `label` stands beside it, the ends are those of its intervals."""

    x: float
    y: float
    series: Label
    label: Label | None = None
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter(BaseFigure):
    """Things by two numbers; a series, in the order it first comes, has its colour and shape."""

    kind: ClassVar[str] = "scatter"
    name: str
    title: Text
    x_label: Label
    y_label: Label
    points: tuple[Mark, ...]
    x_unit: Label = ""
    y_unit: Label = ""
    note: Text | None = None

    def __post_init__(self) -> None:
        for point in self.points:
            ends = (point.x_low, point.x_high), (point.y_low, point.y_high)
            if any((low is None) != (high is None) for low, high in ends):
                raise fault(self, "an interval has one end")

    @property
    def series(self) -> tuple[Label, ...]:
        """The series in the order they first come."""
        return tuple(dict.fromkeys(point.series for point in self.points))
