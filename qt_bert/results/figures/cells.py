"""Coloured cells: a matrix of them, or tokens of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qt_bert.results.figures.base import BaseFigure, Scale, check_matrix, fault
from qt_bert.results.text import Label, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap(BaseFigure):
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
        check_matrix(self, "values", self.values, shape)
        if self.annotations is not None:
            check_matrix(self, "annotations", self.annotations, shape)
        for row, column in self.marked:
            if not (0 <= row < shape[0] and 0 <= column < shape[1]):
                raise fault(self, f"marked cell ({row}, {column}) lies outside {shape}")


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
    name: str
    title: Text
    unit: Label
    lines: tuple[TokenLine, ...]
    scale: Scale = "sequential"
    low: float | None = None
    high: float | None = None
    digits: int = 2
    note: Text | None = None
