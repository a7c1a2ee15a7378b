"""Figures as inline SVG, one file a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qt_bert.report.charts.bars import draw_bars
from qt_bert.report.charts.canvas import Canvas
from qt_bert.report.charts.curve import draw_curve
from qt_bert.report.charts.graph import draw_graph
from qt_bert.report.charts.heatmap import draw_heat_map
from qt_bert.report.charts.scatter import draw_scatter
from qt_bert.report.charts.tokens import draw_tokens
from qt_bert.results.figures import Bars, Curve, Figure, Graph, HeatMap, Scatter, Tokens

_DRAWERS: dict[type, Callable[[Any], Canvas]] = {
    HeatMap: draw_heat_map,
    Curve: draw_curve,
    Bars: draw_bars,
    Tokens: draw_tokens,
    Graph: draw_graph,
    Scatter: draw_scatter,
}


def draw(figure: Figure) -> Canvas:
    """The figure as an SVG canvas; `.svg()` gives its markup, `.width` its width in pixels."""
    return _DRAWERS[type(figure)](figure)


__all__ = ["Canvas", "draw"]
