"""Figures as data: report and page draw the same object, each in its own way.

Missing values are `None`; NaN and infinity are refused when a figure is stored. Every figure has a
`name` (unique in its file, for links and tables), a bilingual title and a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from qt_bert.errors import ArgumentError
from qt_bert.results.codec import decode, encode
from qt_bert.results.text import Label, Text

Scale = Literal["sequential", "diverging"]
"""Colours from nothing to much, or from negative over zero to positive."""


class _Figure:
    """What all kinds share: their way to JSON."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data with the key `kind`; `figure_from_json` reads it."""
        return encode(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap(_Figure):
    """A matrix of cells: `values[row][column]`.

    `annotations` (same shape) stand under the values, for instance counts under shares; `marked`
    lists the (row, column) cells to outline, for instance the significant ones. Colours span `low`
    to `high`, by default the range of the values (symmetric about zero when diverging).
    """

    kind: ClassVar[str] = "heat_map"
    name: str
    title: Text
    x_label: Label
    y_label: Label
    unit: Label
    columns: tuple[Label, ...]
    rows: tuple[Label, ...]
    values: tuple[tuple[float | None, ...], ...]
    annotations: tuple[tuple[str, ...], ...] | None = None
    marked: tuple[tuple[int, int], ...] = ()
    scale: Scale = "sequential"
    low: float | None = None
    high: float | None = None
    digits: int = 2
    note: Text | None = None

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.columns))
        _check_matrix(self, "values", self.values, shape)
        if self.annotations is not None:
            _check_matrix(self, "annotations", self.annotations, shape)
        for row, column in self.marked:
            if not (0 <= row < shape[0] and 0 <= column < shape[1]):
                raise _fault(self, f"marked cell ({row}, {column}) lies outside {shape}")


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
class Curve(_Figure):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSeries:
    """One bar a category; `intervals`, where given, holds (low, high) or `None` for each."""

    name: Label
    values: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(_Figure):
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
            _check_length(self, "values", series.values, len(self.categories))
            if series.intervals is not None:
                _check_length(self, "intervals", series.intervals, len(self.categories))


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
class Tokens(_Figure):
    """Text whose tokens are coloured by a value; colours as in `HeatMap`."""

    kind: ClassVar[str] = "tokens"
    name: str
    title: Text
    unit: Label
    lines: tuple[TokenLine, ...]
    scale: Scale = "sequential"
    low: float | None = None
    high: float | None = None
    digits: int = 2
    note: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node at a place of the grid: `column` from the left, `row` from the top, both from 0."""

    name: str
    column: int
    row: int
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow between two nodes; a negative weight has its own colour."""

    source: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(_Figure):
    """Nodes on a grid (for instance layer by head) and weighted arrows; `unit` is the weights'."""

    kind: ClassVar[str] = "graph"
    name: str
    title: Text
    x_label: Label
    y_label: Label
    unit: Label
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    digits: int = 2
    note: Text | None = None

    def __post_init__(self) -> None:
        names = {node.name for node in self.nodes}
        if len(names) != len(self.nodes):
            raise _fault(self, "two nodes have one name")
        unknown = {end for edge in self.edges for end in (edge.source, edge.target)} - names
        if unknown:
            raise _fault(self, f"an edge names the unknown node {min(unknown)!r}")


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
class Scatter(_Figure):
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
                raise _fault(self, "an interval has one end")

    @property
    def series(self) -> tuple[Label, ...]:
        """The series in the order they first come."""
        return tuple(dict.fromkeys(point.series for point in self.points))


Figure = HeatMap | Curve | Bars | Tokens | Graph | Scatter


def figure_from_json(value: Any, where: str = "figure") -> Figure:
    """The figure that `to_json` turned into `value`.

    Raises RunFolderError naming `where` and the key that does not fit.
    """
    return decode(Figure, value, where)  # type: ignore[no-any-return]


def _check_matrix(
    figure: HeatMap, name: str, matrix: Sequence[Sequence[Any]], shape: tuple[int, int]
) -> None:
    _check_length(figure, f"rows of {name}", matrix, shape[0])
    for row in matrix:
        _check_length(figure, f"{name} in a row", row, shape[1])


def _check_length(figure: HeatMap | Bars, name: str, items: Sequence[Any], expected: int) -> None:
    if len(items) != expected:
        raise _fault(figure, f"{len(items)} {name}, but {expected} labels")


def _fault(figure: HeatMap | Bars | Graph | Scatter, what: str) -> ArgumentError:
    return ArgumentError(f"figure {figure.name!r}: {what}")
