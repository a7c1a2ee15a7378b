"""Figures as charts that can be pointed at, clicked and saved, one file a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from qt_bert.app.draw import bars, curve, graph, heat_map, scatter, tokens
from qt_bert.app.draw.clicks import Cell, clicks_so_far, new_click
from qt_bert.app.draw.look import Chart, Look, look
from qt_bert.app.draw.saving import save_buttons
from qt_bert.app.words import escaped, say
from qt_bert.results.figures import Bars, Curve, Figure, Graph, HeatMap, Scatter, Tokens

_CHARTS: dict[type, Callable[[Any, Look], Chart]] = {
    HeatMap: heat_map.chart_of,
    Curve: curve.chart_of,
    Bars: bars.chart_of,
    Tokens: tokens.chart_of,
    Graph: graph.chart_of,
    Scatter: scatter.chart_of,
}


def draw(
    figure: Figure,
    *,
    key: str | None = None,
    click: bool = False,
    bare: bool = False,
) -> Cell | None:
    """Draw any figure in the visitor's language and theme, with its title, note and ways to save it.

    `key` names it on the page (by default the figure's name; two figures of one name need keys).
    With `click` a heat map gives the (row, column) clicked, in the one run that the click made.
    `bare` leaves out title, note and the buttons.
    """
    key = key or figure.name
    with st.container(key=f"figure-{_plain(key)}", gap="small"):
        if not bare:
            st.markdown(f"**{escaped(say(figure.title))}**")
        clicked = None
        if click and isinstance(figure, HeatMap):
            clicked = _clickable(figure, f"click-{key}")
        else:
            _show(_CHARTS[type(figure)](figure, look()), say(figure.title))
        if figure.note is not None and not bare:
            st.caption(escaped(say(figure.note)))
        if not bare:
            save_buttons(figure, f"save-{key}")
    return clicked


def _show(chart: Chart, title: str, **more: Any) -> Any:
    return st.vega_lite_chart(
        chart.data, chart.spec, width=chart.width or "stretch", alt=title, **more
    )


def _clickable(figure: HeatMap, key: str) -> Cell | None:
    cell = new_click(key, len(figure.rows), len(figure.columns))
    chart = heat_map.chart_of(figure, look(), clicks=clicks_so_far(key))
    _show(chart, say(figure.title), key=key, on_select="rerun")
    return cell


def _plain(key: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in key)


__all__ = ["draw"]
