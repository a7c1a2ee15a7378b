"""Lines over a numeric axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qt_bert.results.figures.base import BaseFigure
from qt_bert.results.text import Label, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured point; `low` and `high` are the ends of its interval, `n` its base."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A named line; a dashed one is a control or a reference."""

    name: Label
    points: tuple[Point, ...]
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(BaseFigure):
    """Lines over a numeric axis. `unit` is that of y, `x_unit` that of x."""

    kind: ClassVar[str] = "curve"
    name: str
    title: Text
    x_label: Label
    y_label: Label
    unit: Label
    series: tuple[Series, ...]
    x_unit: Label = ""
    note: Text | None = None
