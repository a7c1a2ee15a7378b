"""Bars: upright for short categories (tokens, grades), lying for long ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qt_bert.app.draw.labels import SMALL, Spec, beside, label_of, labelled, width_of
from qt_bert.app.draw.look import Chart, Look, axis, framed, series_legend
from qt_bert.results.figures import Bars
from qt_bert.results.numbers import number

_SHORT = 48
"""Pixels: categories whose longest name takes more lie down."""
_NUMBERS_UP_TO = 90
_HEIGHT, _BAR, _DIGIT = 220, 18, 6


def chart_of(figure: Bars, look: Look) -> Chart:
    """One group of bars a category, from zero, with values and intervals."""
    categories = [look.say(label) for label in figure.categories]
    upright = max((width_of(name) for name in categories), default=0) <= _SHORT
    by, value = ("x", "y") if upright else ("y", "x")
    params, names = beside("categories", categories, "bottom")
    if not upright:
        names = {"labelExpr": label_of("categories"), "labelLimit": 180, "grid": False}
    group = {
        "field": "category",
        "type": "ordinal",
        "axis": axis(look.say(figure.x_label), **names),
    }
    length = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": True},
        "stack": None,
        "axis": axis(look.with_unit(figure.y_label, figure.unit), tickCount=4),
    }
    air = {"paddingInner": 0.15}
    beside_each_other = {"field": "series", "type": "ordinal", "scale": air}
    lying = (_BAR * len(figure.series) + 10) * max(len(categories), 1)
    series = labelled("series_names", [look.say(one.name) for one in figure.series])
    spec = framed(
        {
            "params": [*params, series],
            "transform": [
                {"calculate": "categories[datum.category]", "as": "category_label"},
                {"calculate": "series_names[datum.series]", "as": "series_label"},
            ],
            "height": _HEIGHT if upright else lying,
            "encoding": {by: group, f"{by}Offset": beside_each_other},
            "layer": _layers(figure, look, value, length),
        }
    )
    if not upright:  # room for the number of a bar that ends at the edge
        spec["padding"] = spec["padding"] | {"right": 4 + _DIGIT * _longest(figure)}
    return Chart(spec, _table(figure), None if upright else 640)


def _table(figure: Bars) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for j, series in enumerate(figure.series):
        for i, value in enumerate(series.values):
            ends = series.intervals[i] if series.intervals else None
            low, high = ends or (None, None)
            shown = number(value, figure.digits)
            rows.append(
                {
                    "category": i,
                    "series": j,
                    "value": value,
                    "low": low,
                    "high": high,
                    "shown": shown,
                }
            )
    kinds = {"category": pa.int32(), "series": pa.int32(), "shown": pa.string()}
    fields = [(name, kinds.get(name, pa.float64())) for name in _FIELDS]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


_FIELDS = ("category", "series", "value", "low", "high", "shown")


def _layers(figure: Bars, look: Look, value: str, length: Spec) -> list[Spec]:
    colour = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(range(len(figure.series))), "range": _colours(figure, look)},
        "legend": series_legend("series_names") if len(figure.series) > 1 else None,
    }
    # A whole band: of less, as Streamlit's theme has it, a bar stands beside its number and interval.
    thick = "width" if value == "y" else "height"
    bars: Spec = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2, thick: {"band": 1}},
        "encoding": {value: length, "color": colour, "tooltip": _tips(figure, look)},
    }
    layers = [bars]
    if any(series.intervals for series in figure.series):
        ends = {value: {"field": "low", "type": "quantitative"}, f"{value}2": {"field": "high"}}
        rule = {"type": "rule", "color": look.palette.ink, "strokeWidth": 1.5}
        layers.append({"mark": rule, "encoding": ends})
    if len(figure.categories) * len(figure.series) <= _NUMBERS_UP_TO:
        layers.append(_numbers(figure, look, value))
    return layers


def _colours(figure: Bars, look: Look) -> list[str]:
    known = look.palette.series
    return [known[i % len(known)] for i in range(len(figure.series))]


def _tips(figure: Bars, look: Look) -> list[Spec]:
    shape = f",.{figure.digits}f"
    tips: list[Spec] = [{"field": "category_label", "title": look.say(figure.x_label) or "·"}]
    if len(figure.series) > 1:
        tips.append({"field": "series_label", "title": "·"})
    name = look.with_unit(figure.y_label, figure.unit) or "="
    tips.append({"field": "value", "title": name, "format": shape})
    if any(series.intervals for series in figure.series):
        tips += [{"field": end, "title": end, "format": shape} for end in ("low", "high")]
    return tips


def _longest(figure: Bars) -> int:
    """Characters of the longest number."""
    shown = (number(value, figure.digits) for one in figure.series for value in one.values)
    return max(map(len, shown), default=1)


def _numbers(figure: Bars, look: Look, value: str) -> Spec:
    """The values at the bars' ends, where there is room."""
    upright = value == "y"
    end = "max(datum.value, isValid(datum.high) ? datum.high : datum.value, 0)"
    bars = max(len(figure.categories) * len(figure.series), 1)
    roomy = f"width / {bars} > {_DIGIT * (_longest(figure) + 1)}" if upright else "true"
    place = {"dy": -7} if upright else {"align": "left", "dx": 4}
    return {
        "transform": [{"calculate": end, "as": "end"}],
        "mark": {"type": "text", "fontSize": SMALL, "color": look.palette.ink, "tooltip": None}
        | place,
        "encoding": {
            value: {"field": "end", "type": "quantitative"},
            "text": {"field": "shown"},
            "opacity": {"condition": {"test": roomy, "value": 1}, "value": 0},
        },
    }
