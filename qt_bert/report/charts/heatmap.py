"""Heat maps."""

from __future__ import annotations

from qt_bert.report.charts.canvas import FONT_SIZE, SMALL, Canvas, Place, fit, text_width
from qt_bert.report.charts.legend import colour_legend
from qt_bert.report.charts.scales import Colours, ink
from qt_bert.results.figures import HeatMap
from qt_bert.results.numbers import MISSING, number
from qt_bert.results.text import Label, Text, in_language

_LEGEND_HEIGHT, _LABEL_ROOM, _COLUMN_ROOM = 44, 220, 110
_TIGHT = 10.5
_HALF = 520
"""Pixels that fit beside another figure."""


def draw_heat_map(figure: HeatMap) -> Canvas:
    """Cells coloured by value; values are written in where a cell has room for them.

    The labels of columns stand upright where they are wider than a cell.
    """
    rows = figure.rows
    columns = [fit(label, _COLUMN_ROOM) for label in figure.columns]
    left = min(max(map(text_width, rows), default=0), _LABEL_ROOM) + 14
    cell = _cell_size(figure, left)
    upright = [text_width(label) > cell[0] for label in columns]
    tallest = max([text_width(k) for k, up in zip(columns, upright, strict=True) if up], default=0)
    top = max(48.0, 36.0 + tallest)
    width = left + cell[0] * len(columns) + 12
    height = top + cell[1] * len(rows) + _LEGEND_HEIGHT
    canvas = Canvas(max(width, 320), height, figure.title)
    canvas.text((0, 14), _axes(figure), "muted")
    for i, label in enumerate(columns):
        x = left + (i + 0.5) * cell[0]
        if upright[i]:
            canvas.text((x + FONT_SIZE / 3, top - 8), label, upright=True)
        else:
            canvas.text((x, top - 8), label, anchor="middle")
    for i, label in enumerate(rows):
        y = top + (i + 0.5) * cell[1] + FONT_SIZE / 3
        _draw_row_label(canvas, (left - 8, y), label)
    colours = Colours.over(
        [value for row in figure.values for value in row], figure.scale, figure.low, figure.high
    )
    for i in range(len(rows)):
        for j in range(len(columns)):
            place = (left + j * cell[0], top + i * cell[1])
            _draw_cell(canvas, figure, colours, (i, j), place, cell)
    for i, j in figure.marked:
        place = (left + j * cell[0] + 1, top + i * cell[1] + 1)
        canvas.rect(place, (cell[0] - 3, cell[1] - 3), "marked")
    colour_legend(canvas, (left, height - 30), colours, figure.unit, figure.digits)
    return canvas


def _draw_row_label(canvas: Canvas, place: Place, label: Label) -> None:
    if text_width(label) <= _LABEL_ROOM:
        canvas.text(place, label, anchor="end")
    else:
        canvas.paragraph(place, label, _LABEL_ROOM, anchor="end", middle=True)


def _cell_size(figure: HeatMap, left: float) -> tuple[float, float]:
    """Room for the values where there are few columns, else small cells, within half a page."""
    columns, rows = len(figure.columns), len(figure.rows)
    if columns > 16:
        return (20, 20) if left + 20 * columns <= _HALF else (24, 24)
    height = 46 if figure.annotations else 28
    if columns <= 6:
        return (64 if rows <= 16 else 52), height
    widest = _widest(figure, SMALL)
    if left + (widest + 3) * columns > _HALF:
        widest = _widest(figure, _TIGHT)
    return min(max(widest + 3, 34), 64), height


def _widest(figure: HeatMap, size: float) -> float:
    """The room that the longest text of a cell takes."""
    texts = [number(value, figure.digits) for row in figure.values for value in row]
    texts += [text for row in figure.annotations or () for text in row]
    return max([text_width(text, size) for text in texts], default=0)


def _axes(figure: HeatMap) -> Text:
    zh, en = (
        (in_language(figure.y_label, k), in_language(figure.x_label, k)) for k in ("zh", "en")
    )
    return Text(f"行：{zh[0]} · 列：{zh[1]}", f"rows: {en[0]} · columns: {en[1]}")


def _draw_cell(
    canvas: Canvas,
    figure: HeatMap,
    colours: Colours,
    cell: tuple[int, int],
    place: tuple[float, float],
    size: tuple[float, float],
) -> None:
    i, j = cell
    value = figure.values[i][j]
    inner = (size[0] - 1, size[1] - 1)
    canvas.rect(place, inner, "cell", tip=_tip(figure, i, j))
    style, opacity = colours(value) if value is not None else ("missing", 1.0)
    canvas.rect(place, inner, f"{style} through", opacity=opacity)
    shown = number(value, figure.digits)
    if text_width(shown, _TIGHT) > inner[0]:
        return
    style = ink(opacity) if value is not None else "value"
    if text_width(shown, SMALL) > inner[0]:
        style += " tight"
    centre = place[0] + size[0] / 2
    if figure.annotations is None:
        canvas.text((centre, place[1] + size[1] / 2 + 4), shown, style, anchor="middle")
    else:
        canvas.text((centre, place[1] + size[1] / 2 - 1), shown, style, anchor="middle")
        note = figure.annotations[i][j]
        canvas.text((centre, place[1] + size[1] / 2 + 14), note, f"{style} small", anchor="middle")


def _tip(figure: HeatMap, row: int, column: int) -> Text:
    value = figure.values[row][column]
    shown = MISSING if value is None else number(value, figure.digits)
    note = f" ({figure.annotations[row][column]})" if figure.annotations else ""

    def words(language: str) -> str:
        place = f"{in_language(figure.rows[row], language)} → "
        place += in_language(figure.columns[column], language)
        return f"{place}: {shown} {in_language(figure.unit, language)}{note}"

    return Text(words("zh"), words("en"))
