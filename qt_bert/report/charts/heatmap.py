"""Heat maps."""

from __future__ import annotations

from qt_bert.report.charts.canvas import FONT_SIZE, Canvas, fit, text_width
from qt_bert.report.charts.legend import colour_legend
from qt_bert.report.charts.scales import Colours, ink
from qt_bert.report.numbers import MISSING, number
from qt_bert.results.figures import HeatMap
from qt_bert.results.text import Text, in_language

_LEGEND_HEIGHT, _LABEL_ROOM = 44, 200


def draw_heat_map(figure: HeatMap) -> Canvas:
    """Cells coloured by value; values are written in where a cell has room for them."""
    cell_width, cell_height = _cell_size(figure)
    rows = [fit(label, _LABEL_ROOM) for label in figure.rows]
    columns = [fit(label, _LABEL_ROOM) for label in figure.columns]
    left = max(map(text_width, rows), default=0) + 14
    widest = max(map(text_width, columns), default=0)
    every = max(1, -int(-(widest + 4) // cell_width))
    top = 48.0
    width = left + cell_width * len(figure.columns) + 12
    height = top + cell_height * len(figure.rows) + _LEGEND_HEIGHT
    canvas = Canvas(max(width, 320), height, figure.title)
    canvas.text((0, 14), _axes(figure), "muted")
    for i, label in enumerate(columns):
        if i % every == 0:
            canvas.text((left + (i + 0.5) * cell_width, top - 8), label, anchor="middle")
    for i, label in enumerate(rows):
        y = top + (i + 0.5) * cell_height + FONT_SIZE / 3
        canvas.text((left - 8, y), label, anchor="end")
    colours = Colours.over(
        [value for row in figure.values for value in row], figure.scale, figure.low, figure.high
    )
    for i in range(len(figure.rows)):
        for j in range(len(figure.columns)):
            place = (left + j * cell_width, top + i * cell_height)
            _draw_cell(canvas, figure, colours, (i, j), place, (cell_width, cell_height))
    for i, j in figure.marked:
        place = (left + j * cell_width + 1, top + i * cell_height + 1)
        canvas.rect(place, (cell_width - 3, cell_height - 3), "marked")
    colour_legend(canvas, (left, height - 30), colours, figure.unit, figure.digits)
    return canvas


def _cell_size(figure: HeatMap) -> tuple[float, float]:
    columns = len(figure.columns)
    if columns <= 8:
        return 64, 46
    return (46, 30) if columns <= 16 else (24, 24)


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
    if text_width(shown, 12) > inner[0]:
        return
    style = ink(opacity) if value is not None else "value"
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
