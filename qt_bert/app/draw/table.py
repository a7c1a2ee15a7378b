"""A figure's numbers as CSV, which a spreadsheet opens and does not run."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.results.csv_bytes import csv_bytes
from qt_bert.results.figures import Bars, Curve, Figure, Graph, HeatMap, Scatter, Tokens
from qt_bert.results.text import in_language

Row = tuple[str | float | int | None, ...]


def csv_of(figure: Figure, language: str) -> bytes:
    """One row a cell, point, bar, token, arrow or mark, under names; UTF-8 that Excel recognises."""
    return csv_bytes(_rows(figure, language))


def _rows(figure: Figure, language: str) -> Iterator[Row]:
    match figure:
        case HeatMap():
            yield from _heat_map(figure, language)
        case Bars():
            yield from _bars(figure, language)
        case Curve():
            yield ("series", "x", "y", "low", "high", "n", "unit")
            unit = in_language(figure.unit, language)
            for series in figure.series:
                name = in_language(series.name, language)
                yield from ((name, p.x, p.y, p.low, p.high, p.n, unit) for p in series.points)
        case Tokens():
            yield from _tokens(figure, language)
        case Graph():
            unit = in_language(figure.unit, language)
            yield ("from", "to", "weight", "unit")
            yield from ((edge.source, edge.target, edge.weight, unit) for edge in figure.edges)
        case Scatter():
            yield from _scatter(figure, language)


def _heat_map(figure: HeatMap, language: str) -> Iterator[Row]:
    noted = figure.annotations is not None
    yield ("row", "column", "value", "unit", "marked", *(("note",) if noted else ()))
    unit, marked = in_language(figure.unit, language), set(figure.marked)
    columns = [in_language(label, language) for label in figure.columns]
    for i, label in enumerate(figure.rows):
        name = in_language(label, language)
        for j, column in enumerate(columns):
            note = (figure.annotations[i][j],) if figure.annotations is not None else ()
            yield (name, column, figure.values[i][j], unit, int((i, j) in marked), *note)


def _tokens(figure: Tokens, language: str) -> Iterator[Row]:
    noted = any(token.note is not None for line in figure.lines for token in line.tokens)
    yield ("line", "token", "value", "marked", "ends_word", "unit", *(("note",) if noted else ()))
    unit = in_language(figure.unit, language)
    for line in figure.lines:
        name = in_language(line.name, language)
        for t in line.tokens:
            said = None if t.note is None else in_language(t.note, language)
            marks = int(t.marked), int(t.ends_word)
            yield (name, t.text, t.value, *marks, unit, *((said,) if noted else ()))


def _bars(figure: Bars, language: str) -> Iterator[Row]:
    yield ("category", "series", "value", "low", "high", "unit")
    unit = in_language(figure.unit, language)
    for series in figure.series:
        name = in_language(series.name, language)
        for i, category in enumerate(figure.categories):
            low, high = (series.intervals[i] if series.intervals else None) or (None, None)
            yield (in_language(category, language), name, series.values[i], low, high, unit)


def _scatter(figure: Scatter, language: str) -> Iterator[Row]:
    names = ("x", "x_low", "x_high", "y", "y_low", "y_high")
    yield ("series", "label", *names, "x_unit", "y_unit")
    units = in_language(figure.x_unit, language), in_language(figure.y_unit, language)
    for mark in figure.points:
        label = None if mark.label is None else in_language(mark.label, language)
        numbers = (getattr(mark, name) for name in names)
        yield (in_language(mark.series, language), label, *numbers, *units)
