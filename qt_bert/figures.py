"""Figures as data: what a probe or view has to show. `qt_bert.charts` draws them, for report and page.

Missing values are `None`; NaN and infinity are refused when a figure is stored. Every figure has a
`name` (unique in its file, for links and tables), a bilingual title and a unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.text import Label, Text

Scale = Literal["sequential", "diverging"]
"""Colours from nothing to much, or from negative over zero to positive."""

_NONE = Text("", "")

Cell = tuple[int, int]
Interval = tuple[float, float]
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFigure:
    """A figure of any kind. The texts of a probe's figures are filled in from its TOML."""

    name: str
    title: Text = _NONE
    note: Text | None = None

    def _check_length(self, name: str, items: Sequence[Any], expected: int) -> None:
        """Raise ArgumentError where there are not as many `items` as labels."""
        if len(items) != expected:
            raise self._fault(f"{len(items)} {name}, but {expected} labels")

    def _check_matrix(self, name: str, matrix: Sequence[Sequence[Any]], shape: Cell) -> None:
        """Raise ArgumentError where `matrix` has not the `shape` [rows, columns] of the labels."""
        self._check_length(f"rows of {name}", matrix, shape[0])
        for row in matrix:
            self._check_length(f"{name} in a row", row, shape[1])

    def _fault(self, what: str) -> ArgumentError:
        return ArgumentError(f"figure {self.name!r}: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot(BaseFigure):
    """A figure with two axes."""

    x_label: Label = _NONE
    y_label: Label = _NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap(Plot):
    """A matrix of cells: `values[row][column]`.

    `annotations` (same shape) stand under the values, for instance counts under shares; `marked`
    lists the (row, column) cells to outline, for instance the significant ones. Colours span `low`
    to `high`, by default the range of the values (symmetric about zero when diverging).
    """

    kind: ClassVar[str] = "heat_map"
    unit: Label = _NONE
    columns: tuple[Label, ...]
    rows: tuple[Label, ...]
    values: tuple[tuple[float | None, ...], ...]
    annotations: tuple[tuple[str, ...], ...] | None = None
    marked: tuple[tuple[int, int], ...] = ()
    scale: Scale = "sequential"
    low: float | None = None
    high: float | None = None
    digits: int = 2

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.columns))
        self._check_matrix("values", self.values, shape)
        if self.annotations is not None:
            self._check_matrix("annotations", self.annotations, shape)
        for row, column in self.marked:
            if not (0 <= row < shape[0] and 0 <= column < shape[1]):
                raise self._fault(f"marked cell ({row}, {column}) lies outside {shape}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token and its value; `marked` outlines it, `ends_word` draws a word end after it.

    `note` is what else there is to say of it, shown where a reader points at it.
    """

    text: str
    value: float | None = None
    marked: bool = False
    ends_word: bool = False
    note: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLine:
    """A named run of tokens, for instance the query under one head."""

    name: Label
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens(BaseFigure):
    """Text whose tokens are coloured by a value; colours as in `HeatMap`."""

    kind: ClassVar[str] = "tokens"
    unit: Label = _NONE
    lines: tuple[TokenLine, ...]
    scale: Scale = "sequential"
    low: float | None = None
    high: float | None = None
    digits: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSeries:
    """One bar a category; `intervals`, where given, holds (low, high) or `None` for each."""

    name: Label
    values: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(Plot):
    """One group of bars a category, for instance grades before and after heads are left out."""

    kind: ClassVar[str] = "bars"
    unit: Label = _NONE
    categories: tuple[Label, ...]
    series: tuple[BarSeries, ...]
    digits: int = 2

    def __post_init__(self) -> None:
        for series in self.series:
            self._check_length("values", series.values, len(self.categories))
            if series.intervals is not None:
                self._check_length("intervals", series.intervals, len(self.categories))


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
class Curve(Plot):
    """Lines over a numeric axis. `unit` is that of y, `x_unit` that of x."""

    kind: ClassVar[str] = "curve"
    unit: Label = _NONE
    series: tuple[Series, ...]
    x_unit: Label = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A thing at its place (x, y); `label` stands beside it."""

    x: float
    y: float
    series: Label
    label: Label | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter(Plot):
    """Things by two numbers; a series, in the order it first comes, has its colour and shape."""

    kind: ClassVar[str] = "scatter"
    points: tuple[Mark, ...]
    x_unit: Label = ""
    y_unit: Label = ""

    @property
    def series(self) -> tuple[Label, ...]:
        """The series in the order they first come."""
        return tuple(dict.fromkeys(point.series for point in self.points))


@dataclass(frozen=True, slots=True, kw_only=True)
class Links(Plot):
    """Lines between two columns of tokens: `links` are (place on the left, on the right, weight).

    `x_label` names the left column, `y_label` the right one. A line of weight `high` (by default the
    largest) is opaque.
    """

    kind: ClassVar[str] = "links"
    unit: Label = _NONE
    left: tuple[str, ...]
    right: tuple[str, ...]
    links: tuple[tuple[int, int, float], ...]
    high: float | None = None
    digits: int = 2

    def __post_init__(self) -> None:
        for start, end, _ in self.links:
            if not (0 <= start < len(self.left) and 0 <= end < len(self.right)):
                raise self._fault(f"no tokens at the ends of the line ({start}, {end})")


Figure = HeatMap | Curve | Bars | Tokens | Scatter | Links


# Figures as probes make them --------------------------------------------------------------------

HEAD, LAYER = Text("头", "head"), Text("层", "layer")


def head_map(
    name: str, values: Iterable[Values], *, marked: Iterable[Head | str] = (), **options: Any
) -> HeatMap:
    """A map of `values` [layers, heads]; NaN is missing, `marked` heads (`L3H7`) are outlined.

    `options` are further fields of `HeatMap`.
    Raises ArgumentError where `marked` names no head of the map.
    """
    cells = cells_of(values)
    fields: dict[str, Any] = {
        "x_label": HEAD,
        "y_label": LAYER,
        "columns": tuple(f"H{head}" for head in range(len(cells[0]) if cells else 0)),
        "rows": tuple(f"L{layer}" for layer in range(len(cells))),
        "marked": tuple(Head.parse(str(head)) for head in marked),
    }
    return HeatMap(name=name, values=cells, **(fields | options))


def colour_end(values: Iterable[float | None]) -> float | None:
    """The size that one value in twenty exceeds, so that a few do not hide the rest; None for none."""
    sizes = sorted(abs(value) for value in values if value is not None)
    return sizes[max(0, math.ceil(0.95 * len(sizes)) - 1)] if sizes else None


def cells_of(values: Iterable[Values]) -> tuple[tuple[float | None, ...], ...]:
    """A matrix as a figure holds it: None for NaN and infinity."""
    return tuple(tuple(known(value) for value in row) for row in values)


def curve(
    name: str, series: Mapping[Label, Iterable[Point]], *, dashed: Iterable[Label] = ()
) -> Curve:
    """Lines over a numeric axis; the `dashed` ones are controls or references."""
    controls = set(dashed)
    made = tuple(
        Series(name=label, points=tuple(points), dashed=label in controls)
        for label, points in series.items()
    )
    return Curve(name=name, series=made)


def known(value: Any) -> float | None:
    """A number as results hold it: None where there is none or it is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)
