"""Figures over kinds of tokens: bars by kind, maps of layers by kinds, points of a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qt_bert.figures import Bars, BarSeries, HeatMap, Point
from qt_bert.probes.display import LAYER, LOOKED_AT, cells, known
from qt_bert.probes.features import words
from qt_bert.probes.naming import Average
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text


def kind_bars(
    name: str,
    title: Text,
    y_label: Text,
    kinds: Sequence[str],
    series: Sequence[BarSeries],
    note: Text,
) -> Bars:
    """Bars of attention in hundredths, a group for each of `kinds`."""
    return Bars(
        name=name,
        title=title,
        x_label=LOOKED_AT,
        y_label=y_label,
        unit=words.ATTENTION,
        categories=tuple(words.NAMES[kind] for kind in kinds),
        series=tuple(series),
        digits=1,
        note=note,
    )


def bar_series(name: Text, found: Sequence[Average]) -> BarSeries:
    """Averages with their intervals, one a kind."""
    return BarSeries(
        name=name,
        values=tuple(known(one.value) for one in found),
        intervals=tuple(percentile_interval(one.samples) for one in found),
    )


def layer_map(
    name: str, title: Text, unit: Text, kinds: Sequence[str], values: FloatArray, **options: Any
) -> HeatMap:
    """`values` [layers, kinds] as a heat map; `options` are HeatMap's."""
    return HeatMap(
        name=name,
        title=title,
        x_label=LOOKED_AT,
        y_label=LAYER,
        unit=unit,
        columns=tuple(words.NAMES[kind] for kind in kinds),
        rows=tuple(f"L{layer}" for layer in range(len(values))),
        values=cells(values),
        **options,
    )


def point(layer: int, found: Average) -> Point | None:
    """An average at its layer; None where there is none."""
    if not np.isfinite(found.value):
        return None
    ends = percentile_interval(found.samples) or (None, None)
    return Point(x=layer, y=found.value, low=ends[0], high=ends[1], n=found.n_queries)
