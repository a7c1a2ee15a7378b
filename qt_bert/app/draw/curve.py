"""Curves with their intervals as bands."""

from __future__ import annotations

import pyarrow as pa

from qt_bert.app.draw.labels import Spec, labelled
from qt_bert.app.draw.look import Chart, Look, axis, framed, series_legend
from qt_bert.results.figures import Curve

_HEIGHT = 260
_FIELDS = ("series", "x", "y", "low", "high", "n")


def chart_of(figure: Curve, look: Look) -> Chart:
    """Lines over a numeric axis; a dashed series is grey, as in the report."""
    numbers = range(len(figure.series))
    colours, dashes = _styles(figure, look)
    legend = series_legend("series_names") if len(figure.series) > 1 else None
    encoding: Spec = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "scale": {"zero": False, "nice": False},
            "axis": axis(look.with_unit(figure.x_label, figure.x_unit), tickCount=6),
        },
        "color": {
            "field": "series",
            "type": "nominal",
            "scale": {"domain": list(numbers), "range": colours},
            "legend": legend,
        },
    }
    spec = framed(
        {
            "params": [
                labelled("series_names", [look.say(series.name) for series in figure.series])
            ],
            "transform": [{"calculate": "series_names[datum.series]", "as": "series_label"}],
            "height": _HEIGHT,
            "encoding": encoding,
            "layer": _layers(figure, look, dashes),
        }
    )
    return Chart(spec, _table(figure), 760)


def _table(figure: Curve) -> pa.Table:
    rows = [
        {"series": i, "x": p.x, "y": p.y, "low": p.low, "high": p.high, "n": p.n}
        for i, series in enumerate(figure.series)
        for p in series.points
    ]
    kinds = {"series": pa.int32(), "n": pa.int64()}
    return pa.Table.from_pylist(
        rows, schema=pa.schema([(name, kinds.get(name, pa.float64())) for name in _FIELDS])
    )


def _styles(figure: Curve, look: Look) -> tuple[list[str], list[list[int]]]:
    colours, dashes, plain = [], [], 0
    for series in figure.series:
        colours.append(
            look.palette.muted
            if series.dashed
            else look.palette.series[plain % len(look.palette.series)]
        )
        dashes.append([6, 4] if series.dashed else [1, 0])
        plain += not series.dashed
    return colours, dashes


def _layers(figure: Curve, look: Look, dashes: list[list[int]]) -> list[Spec]:
    name = look.with_unit(figure.y_label, figure.unit)
    # The upright axis belongs to the lines; the band shares its scale.
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": axis(name, tickCount=5),
    }
    dash = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(range(len(dashes))), "range": dashes},
        "legend": None,
    }
    tips = [
        {"field": "series_label", "title": "·"},
        {
            "field": "x",
            "title": look.with_unit(figure.x_label, figure.x_unit) or "x",
            "format": ",~g",
        },
        {"field": "y", "title": name or "y", "format": ",.3f"},
        {"field": "low", "title": "low", "format": ",.3f"},
        {"field": "high", "title": "high", "format": ",.3f"},
        {"field": "n", "title": "n", "format": ","},
    ]
    ends = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
    band: Spec = {
        "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
        "mark": {"type": "area", "opacity": 0.16, "tooltip": None},
        "encoding": ends,
    }
    lines: Spec = {
        "mark": {"type": "line", "strokeWidth": 2, "tooltip": None},
        "encoding": {"y": y, "strokeDash": dash},
    }
    points: Spec = {
        "mark": {"type": "point", "filled": True, "size": 44},
        "encoding": {"y": y, "tooltip": tips},
    }
    bounded = any(p.low is not None for series in figure.series for p in series.points)
    return [band, lines, points] if bounded else [lines, points]
