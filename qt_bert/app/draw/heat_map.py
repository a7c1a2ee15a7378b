"""Heat maps: layers × heads, token × token, confusions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qt_bert.app.draw.labels import FONT, SMALL, Spec, beside, label_of, labelled, width_of
from qt_bert.app.draw.look import Chart, Look, axis, framed, shading
from qt_bert.results.figures import HeatMap
from qt_bert.results.numbers import number
from qt_bert.results.palette import span

CLICKED = "cell"
"""The name of the selection that a click makes."""

_FEW, _SOME = 8, 20
_TEXT_UP_TO = 1_600
"""More cells than this show no numbers, but where they are pointed at."""


def chart_of(figure: HeatMap, look: Look, *, clicks: int | None = None) -> Chart:
    """The map's chart; `clicks` numbers the clicks so far, where cells can be clicked."""
    low, high = span(
        [v for row in figure.values for v in row], figure.scale, figure.low, figure.high
    )
    cells = _cells(figure, look, (low, high))
    touched = _touched(figure, look, clickable=clicks is not None)
    if len(figure.rows) * len(figure.columns) <= _TEXT_UP_TO:
        layers = [cells, *_numbers(figure, look), _outlines(look), touched]
    else:  # nothing stands on the cells, and they are many: they are touched themselves
        layers = [_together(cells, touched), _outlines(look)]
    rows = [look.say(label) for label in figure.rows]
    columns = [look.say(label) for label in figure.columns]
    params, across = beside("columns", columns, "top", _size(len(columns)))
    spec = framed(
        {
            "params": [labelled("rows", rows), *params],
            "transform": [
                {"calculate": "rows[datum.row]", "as": "row_label"},
                {"calculate": "columns[datum.column]", "as": "column_label"},
            ],
            "height": _step(figure) * len(figure.rows),
            "encoding": {
                "x": {
                    "field": "column",
                    "type": "ordinal",
                    "axis": axis(look.say(figure.x_label), **across),
                },
                "y": {"field": "row", "type": "ordinal", "axis": _rows(figure, look)},
            },
            "layer": layers,
        }
    )
    return Chart(spec, _table(figure, look, (low, high), clicks), _width(figure, rows))


def _table(figure: HeatMap, look: Look, ends: tuple[float, float], clicks: int | None) -> pa.Table:
    places = [(i, j) for i in range(len(figure.rows)) for j in range(len(figure.columns))]
    values = [figure.values[i][j] for i, j in places]
    marked = set(figure.marked)
    cells: dict[str, Any] = {
        "row": pa.array([i for i, _ in places], pa.int32()),
        "column": pa.array([j for _, j in places], pa.int32()),
        "value": pa.array(values, pa.float64()),
        "marked": pa.array([place in marked for place in places], pa.bool_()),
    }
    if len(places) <= _TEXT_UP_TO:
        cells["shown"] = [number(value, figure.digits) for value in values]
        cells["strong"] = [look.strong(value, figure.scale, ends) for value in values]
    if figure.annotations is not None:
        cells["note"] = [look.say(figure.annotations[i][j]) for i, j in places]
    if clicks is not None:
        cells["click"] = pa.array([clicks] * len(places), pa.int32())
    return pa.table(cells)


def _cells(figure: HeatMap, look: Look, ends: tuple[float, float]) -> Spec:
    shade = shading(look, figure.scale, ends, look.say(figure.unit), figure.digits)
    known = {"test": "isValid(datum.value)"} | shade
    colour = {"condition": known, "value": look.palette.grid}
    mark = {"type": "rect", "stroke": look.palette.grid, "strokeWidth": 0.5, "tooltip": None}
    return {"mark": mark, "encoding": {"color": colour}}


def _touched(figure: HeatMap, look: Look, *, clickable: bool) -> Spec:
    """What a pointer meets: a cell without colour above all else, with its tip."""
    shape = f",.{figure.digits}f"
    tips = [
        {"field": "row_label", "title": look.say(figure.y_label) or "↓"},
        {"field": "column_label", "title": look.say(figure.x_label) or "→"},
        {"field": "value", "title": look.say(figure.unit) or "=", "format": shape},
    ]
    if figure.annotations is not None:
        tips.append({"field": "note", "title": "n"})
    mark: Spec = {"type": "rect", "opacity": 0}
    layer: Spec = {"mark": mark, "encoding": {"tooltip": tips}}
    if clickable:
        mark["cursor"] = "pointer"
        fields = ["row", "column", "click"]
        select = {"type": "point", "fields": fields, "toggle": False, "clear": False}
        layer["params"] = [{"name": CLICKED, "select": select}]
    return layer


def _together(cells: Spec, touched: Spec) -> Spec:
    encoding = cells["encoding"] | touched["encoding"]
    mark = {name: value for name, value in cells["mark"].items() if name != "tooltip"}
    return touched | {"mark": mark, "encoding": encoding}


def _numbers(figure: HeatMap, look: Look) -> list[Spec]:
    """The values in the cells, and annotations under them, where the cells are wide enough."""
    longest = max((len(number(v, figure.digits)) for row in figure.values for v in row), default=1)
    wide = f"width / {max(len(figure.columns), 1)} > {longest * 6 + 4}"
    seen = {"condition": {"test": wide, "value": 1}, "value": 0}

    def text(field: str, size: int, dy: int) -> Spec:
        mark = {"type": "text", "fontSize": size, "dy": dy, "tooltip": None}
        shown = {"text": {"field": field}, "color": look.ink(), "opacity": seen}
        return {"mark": mark, "encoding": shown}

    if figure.annotations is None:
        return [text("shown", SMALL, 0)]
    return [text("shown", FONT, -7), text("note", SMALL, 8)]


def _outlines(look: Look) -> Spec:
    """The marked cells, outlined."""
    return {
        "transform": [{"filter": "datum.marked"}],
        "mark": {
            "type": "rect",
            "filled": False,
            "stroke": look.palette.ink,
            "strokeWidth": 2,
            "tooltip": None,
        },
    }


def _rows(figure: HeatMap, look: Look) -> Spec:
    size = _size(len(figure.rows))
    more = {
        "labelExpr": label_of("rows"),
        "labelOverlap": "greedy",
        "labelFlush": False,
        "grid": False,
    }
    return axis(look.say(figure.y_label), labelFontSize=size, **more)


def _size(labels: int) -> int:
    return FONT if labels <= 40 else 9


def _step(figure: HeatMap) -> int:
    """Pixels a row."""
    rows, noted = len(figure.rows), figure.annotations is not None
    if rows <= _FEW:
        return 44 if noted else 34
    if rows <= _SOME:
        return 34 if noted else 26
    return 18 if rows <= 40 else max(5, 720 // rows)


def _width(figure: HeatMap, rows: list[str]) -> int | None:
    """Small maps stay small; others take the width there is."""
    columns = len(figure.columns)
    if columns > _FEW:
        return None
    left = min(max((width_of(label) for label in rows), default=0), 150)
    return int(left + 60 + 84 * max(columns, 2))
