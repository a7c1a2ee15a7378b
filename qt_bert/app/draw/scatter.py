"""Scatters: things by two numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qt_bert.app.draw.labels import SMALL, Spec, labelled
from qt_bert.app.draw.look import Chart, Look, axis, framed, series_legend
from qt_bert.results.figures import Mark, Scatter
from qt_bert.results.numbers import printable
from qt_bert.results.palette import shape_of

_HEIGHT = 320
_MANY = 60
_ENDS = ("x_low", "x_high", "y_low", "y_high")


def chart_of(figure: Scatter, look: Look) -> Chart:
    """Colour and shape by series, intervals as thin crosses, labels beside their marks."""
    spec = framed(
        {
            "params": [labelled("series_names", [look.say(name) for name in figure.series])],
            "transform": [{"calculate": "series_names[datum.series]", "as": "series_label"}],
            "height": _HEIGHT,
            "encoding": {"color": _by_series(figure, look.palette.series)},
            "layer": _layers(figure, look),
        }
    )
    return Chart(spec, _table(figure, look), 760)


def _table(figure: Scatter, look: Look) -> pa.Table:
    numbers = {name: number for number, name in enumerate(figure.series)}
    rows = [_row(mark, numbers[mark.series], look) for mark in figure.points]
    kinds = {"series": pa.int32(), "label": pa.string()}
    names = ("series", "label", "x", "y", *_ENDS)
    return pa.Table.from_pylist(
        rows, schema=pa.schema([(name, kinds.get(name, pa.float64())) for name in names])
    )


def _row(mark: Mark, number: int, look: Look) -> dict[str, Any]:
    label = None if mark.label is None else printable(look.say(mark.label))
    ends = {name: getattr(mark, name) for name in _ENDS}
    return {"series": number, "label": label, "x": mark.x, "y": mark.y} | ends


def _by_series(figure: Scatter, looks: tuple[str, ...]) -> Spec:
    """One of `looks` for each series in turn; colours and shapes share one legend."""
    count = len(figure.series)
    legend = series_legend("series_names")
    del legend["symbolType"]  # the shape is the series' own
    return {
        "field": "series",
        "type": "nominal",
        "scale": {
            "domain": list(range(count)),
            "range": [looks[number % len(looks)] for number in range(count)],
        },
        "legend": legend if any(figure.series) else None,
    }


def _layers(figure: Scatter, look: Look) -> list[Spec]:
    names = [
        look.with_unit(label, unit)
        for label, unit in ((figure.x_label, figure.x_unit), (figure.y_label, figure.y_unit))
    ]
    x, y = (_place(field, name) for field, name in zip("xy", names, strict=True))
    rule = {"type": "rule", "strokeWidth": 1, "opacity": 0.6, "tooltip": None}
    across = {"x": {"field": "x_low", "type": "quantitative"}, "x2": {"field": "x_high"}, "y": y}
    up = {"y": {"field": "y_low", "type": "quantitative"}, "y2": {"field": "y_high"}, "x": x}
    shapes = tuple(shape_of(number) for number in range(len(figure.series))) or ("circle",)
    size = 70 if len(figure.points) <= _MANY else 36
    marks: Spec = {
        "mark": {"type": "point", "filled": True, "size": size, "opacity": 0.85},
        "encoding": {
            "x": x,
            "y": y,
            "shape": _by_series(figure, shapes),
            "tooltip": _tips(figure, names),
        },
    }
    crosses: list[Spec] = [
        {
            "transform": [{"filter": f"isValid(datum.{low}) && isValid(datum.{high})"}],
            "mark": rule,
            "encoding": encoding,
        }
        for low, high, encoding in (("x_low", "x_high", across), ("y_low", "y_high", up))
        if any(getattr(mark, low) is not None for mark in figure.points)
    ]
    words: list[Spec] = [_words(look, x, y)] if any(m.label for m in figure.points) else []
    return [*crosses, marks, *words]


def _place(field: str, name: str) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"zero": False, "padding": 12},
        "axis": axis(name, tickCount=6),
    }


def _tips(figure: Scatter, names: list[str]) -> list[Spec]:
    tips: list[Spec] = [{"field": "series_label", "title": "·"}]
    if any(mark.label for mark in figure.points):
        tips.insert(0, {"field": "label", "title": "="})
    for field, name in zip("xy", names, strict=True):
        tips.append({"field": field, "title": name or field, "format": ",.3f"})
        if any(getattr(mark, f"{field}_low") is not None for mark in figure.points):
            tips += [
                {"field": f"{field}_{end}", "title": f"{field} {end}", "format": ",.3f"}
                for end in ("low", "high")
            ]
    return tips


def _words(look: Look, x: Spec, y: Spec) -> Spec:
    return {
        "transform": [{"filter": "isValid(datum.label)"}],
        "mark": {
            "type": "text",
            "align": "left",
            "dx": 8,
            "fontSize": SMALL,
            "color": look.palette.ink,
            "tooltip": None,
        },
        "encoding": {
            "x": x,
            "y": y,
            "text": {"field": "label"},
            "color": {"value": look.palette.ink},
        },
    }
