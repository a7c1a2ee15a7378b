"""Coloured tokens in lines that wrap where the page ends, whatever its width.

The browser knows the width, the server does not. So a token takes a whole number of units, the
server wraps the lines for every width, and the chart takes the places of the width that it has.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import pyarrow as pa

from qt_bert.app.draw.labels import SMALL, Spec, width_of
from qt_bert.app.draw.look import Chart, Look, framed, shading
from qt_bert.results.figures import Token, Tokens
from qt_bert.results.numbers import number, printable
from qt_bert.results.palette import span

_UNIT = 13
"""Pixels: a Chinese character takes two units."""
_SIZE = 15
_ROW = 32
_LONGEST = 16
"""Units: longer tokens are cut off."""
_WIDEST, _STEP = 80, 2
_ROWS = 1_000
"""In a place, rows are thousands."""


def chart_of(figure: Tokens, look: Look) -> Chart:
    """Each line under its name, one box a token on the colour of its value."""
    values = [token.value for line in figure.lines for token in line.tokens]
    ends = span(values, figure.scale, figure.low, figure.high)
    spec = framed(
        {
            "params": [_wraps(figure)],
            "transform": _places(figure),
            "height": {"step": _ROW},
            "encoding": {
                "y": {
                    "field": "row",
                    "type": "ordinal",
                    "axis": None,
                    "scale": {"paddingInner": 0.12, "paddingOuter": 0},
                },
            },
            "layer": [
                _boxes(figure, look, ends),
                _outlines(look),
                _texts(look),
                _word_ends(look),
                _names(look),
            ],
        }
    )
    return Chart(spec, _table(figure, look, ends))


def units_of(token: Token) -> int:
    """How many units a token's box takes: its text and a little air."""
    return min(max(2, ceil((width_of(token.text, _SIZE) + 6) / _UNIT)), _LONGEST)


def _table(figure: Tokens, look: Look, ends: tuple[float, float]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for line in figure.lines:
        rows.append({"units": 0, "name": look.say(line.name)})
        rows += [{"units": units_of(t)} | _row(t, figure, look, ends) for t in line.tokens]
    rows = [{"item": i} | row for i, row in enumerate(rows)]
    kinds = dict.fromkeys(("item", "units"), pa.int32())
    kinds |= {
        "value": pa.float64(),
        "strong": pa.bool_(),
        "marked": pa.bool_(),
        "ends_word": pa.bool_(),
    }
    return pa.Table.from_pylist(
        rows, schema=pa.schema([(name, kinds.get(name, pa.string())) for name in _FIELDS])
    )


_FIELDS = (
    "item",
    "units",
    "name",
    "text",
    "whole",
    "value",
    "shown",
    "note",
    "strong",
    "marked",
    "ends_word",
)


def _row(token: Token, figure: Tokens, look: Look, ends: tuple[float, float]) -> dict[str, Any]:
    whole = printable(token.text)
    return {
        "text": _cut(whole),
        "whole": whole,
        "value": token.value,
        "shown": f"{number(token.value, figure.digits)} {look.say(figure.unit)}".rstrip(),
        "note": None if token.note is None else look.say(token.note),
        "strong": look.strong(token.value, figure.scale, ends),
        "marked": token.marked,
        "ends_word": token.ends_word,
    }


def _cut(text: str) -> str:
    room = _LONGEST * _UNIT - 6
    if width_of(text, _SIZE) <= room:
        return text
    kept = 0
    while width_of(text[: kept + 1] + "…", _SIZE) <= room:
        kept += 1
    return f"{text[:kept]}…"


def _widths(figure: Tokens) -> range:
    """The widths, in units, that rows are reckoned for: the browser takes the widest that fits."""
    longest = max((units_of(t) for line in figure.lines for t in line.tokens), default=2)
    return range(longest, max(_WIDEST, longest + 1), _STEP)


def wrapped(figure: Tokens, width: int) -> list[tuple[int, int]]:
    """(row, first unit) of every name and token in the order of the table, at a width in units."""
    places: list[tuple[int, int]] = []
    row = 0
    for line in figure.lines:
        places.append((row, 0))
        row, start = row + 1, 0
        for token in line.tokens:
            units = units_of(token)
            if start and start + units > width:
                row, start = row + 1, 0
            places.append((row, start))
            start += units
        row += 1
    return places


def _places(figure: Tokens) -> list[Spec]:
    """From a token's number to its row and place, by the chart's width."""
    widths = _widths(figure)
    at = f"floor((width / {_UNIT} - {widths[0]}) / {_STEP})"
    return [
        {"calculate": f"wrapped[clamp({at}, 0, {len(widths) - 1})][datum.item]", "as": "place"},
        {"calculate": f"floor(datum.place / {_ROWS})", "as": "row"},
        {"calculate": f"(datum.place % {_ROWS}) * {_UNIT}", "as": "left"},
        {"calculate": f"datum.left + datum.units * {_UNIT} - 2", "as": "right"},
        {"calculate": "(datum.left + datum.right) / 2", "as": "middle"},
    ]


def _wraps(figure: Tokens) -> Spec:
    """Places at every width, a number each: the row times a thousand, and the first unit."""
    found = [[row * _ROWS + start for row, start in wrapped(figure, w)] for w in _widths(figure)]
    return {"name": "wrapped", "value": found}


def _across(field: str) -> Spec:
    """A place in pixels."""
    scale = {"domainMin": 0, "domainMax": {"expr": "width"}, "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "axis": None, "scale": scale}


def _boxes(figure: Tokens, look: Look, ends: tuple[float, float]) -> Spec:
    tokens = [token for line in figure.lines for token in line.tokens]
    valued = any(token.value is not None for token in tokens)
    colour: Spec = {"value": look.palette.surface}
    tips = [{"field": "whole", "title": "·"}]
    if valued:
        shade = shading(look, figure.scale, ends, look.say(figure.unit), figure.digits)
        colour = {"condition": {"test": "isValid(datum.value)"} | shade} | colour
        tips.append({"field": "shown", "title": "="})
    if any(token.note is not None for token in tokens):
        tips.append({"field": "note", "title": "+"})
    box = {"x": _across("left"), "x2": {"field": "right"}, "color": colour, "tooltip": tips}
    return {
        "transform": [{"filter": "datum.units > 0"}],
        "mark": {"type": "rect", "stroke": look.palette.grid, "strokeWidth": 1, "cornerRadius": 3},
        "encoding": box,
    }


def _outlines(look: Look) -> Spec:
    mark = {"type": "rect", "filled": False, "stroke": look.palette.ink, "strokeWidth": 2}
    return {
        "transform": [{"filter": "datum.marked"}],
        "mark": mark | {"cornerRadius": 3, "tooltip": None},
        "encoding": {"x": _across("left"), "x2": {"field": "right"}},
    }


def _texts(look: Look) -> Spec:
    return {
        "transform": [{"filter": "datum.units > 0"}],
        "mark": {"type": "text", "fontSize": _SIZE, "tooltip": None},
        "encoding": {"x": _across("middle"), "text": {"field": "text"}, "color": look.ink()},
    }


def _word_ends(look: Look) -> Spec:
    mark = {"type": "tick", "orient": "vertical", "thickness": 3, "bandSize": _ROW}
    return {
        "transform": [{"filter": "datum.ends_word"}, {"calculate": "datum.right + 1", "as": "end"}],
        "mark": mark | {"color": look.palette.ink, "tooltip": None},
        "encoding": {"x": _across("end")},
    }


def _names(look: Look) -> Spec:
    mark = {"type": "text", "align": "left", "baseline": "bottom", "dy": 12, "fontSize": SMALL + 1}
    return {
        "transform": [{"filter": "datum.units == 0"}],
        "mark": mark | {"color": look.palette.muted, "tooltip": None, "limit": {"expr": "width"}},
        "encoding": {"x": _across("left"), "text": {"field": "name"}},
    }
