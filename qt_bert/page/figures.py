"""Figures on the page: charts that can be pointed at and clicked, and saved by the browser's menu.

Clicks. The browser keeps its selection over the runs, and sends nothing where the same cell is
clicked again. So clicks are numbered: a cell's data carry the number of clicks so far, a selection
is new where it was not there in the last run, and the same cell with another number is another one.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import streamlit as st

from qt_bert.charts import CLICKED, FONTS, chart
from qt_bert.figures import Cell, Figure, HeatMap, Links, Tokens
from qt_bert.page.widgets import escaped, language, localised
from qt_bert.results.palette import DARK, EITHER, LIGHT, Palette
from qt_bert.token_rows import token_rows

_NARROW = 8
"""A heat map of more columns takes the width there is, as links do; other figures are as wide as in a report."""


def draw(
    figure: Figure, *, key: str | None = None, click: bool = False, bare: bool = False
) -> Cell | None:
    """Draw any figure in the visitor's language and theme, with its title and note.

    `key` names it on the page (by default the figure's name; two figures of one name need keys).
    With `click` a heat map gives the (row, column) clicked, in the one run that the click made.
    `bare` leaves out title and note.
    """
    key = key or figure.name
    plain = "".join(c if c.isalnum() and c.isascii() else "-" for c in key)
    clicked, clicks, more = None, None, {}
    with st.container(key=f"figure-{plain}", gap="small"):
        if not bare:
            st.markdown(f"**{escaped(localised(figure.title))}**")
        if isinstance(figure, Tokens):
            # No run follows where the theme turns: the browser chooses.
            st.html(token_rows(figure, language(), EITHER))
        else:
            wide = isinstance(figure, Links) or (
                isinstance(figure, HeatMap) and len(figure.columns) > _NARROW
            )
            if click and isinstance(figure, HeatMap):
                name = f"click-{key}"
                clicked, clicks = new_click(name, len(figure.rows), len(figure.columns))
                more = {"key": name, "on_select": "rerun"}
            spec, natural = _drawn(figure, language(), palette(), clicks)
            width = "stretch" if wide else round(natural + 220)
            show_chart(spec, width=width, alt=localised(figure.title), **more)
        if not bare and figure.note is not None:
            st.caption(escaped(localised(figure.note)))
    return clicked


def palette() -> Palette:
    """The colours of the visitor's theme; light until the browser names it."""
    return DARK if st.context.theme.type == "dark" else LIGHT


@lru_cache(maxsize=256)
def _drawn(figure: Any, language: str, palette: Palette, clicks: int | None) -> tuple[str, float]:
    """A figure's chart, as `spec_of` has it, and its natural width; most figures of a run were there before."""
    drawn = chart(figure, language, palette, clicks=clicks)
    return spec_of(drawn), float(drawn.width)


def spec_of(drawn: Any) -> str:
    """An Altair chart as the JSON that the browser gets, as wide as its place.

    Not held against the schema, as `st.altair_chart` would do: it takes longer than all else of a run.
    """
    import altair as alt

    drawn.autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    drawn.config.font = FONTS
    rows, drawn.data = drawn.data.values, alt.Data(values=[])  # which Altair would copy, row by row
    spec = drawn.to_dict(validate=False)
    spec["data"]["values"] = rows
    return json.dumps(spec)


def show_chart(spec: str, *, width: Any = "stretch", **more: Any) -> None:
    """Show a chart, as `spec_of` has it, in its own colours, as wide as its place or `width`."""
    st.vega_lite_chart(json.loads(spec), width=width, theme=None, **more)


def new_click(key: str, rows: int, columns: int) -> tuple[Cell | None, int]:
    """The cell of a click on the chart `key` that was not handled yet; the clicks so far."""
    count, handled = st.session_state.get(f"{key}-seen", (0, None))
    try:
        (cell,) = st.session_state[key]["selection"][CLICKED]
        event = int(cell["row"]), int(cell["column"]), int(cell["click"])
    except (KeyError, TypeError, ValueError):  # nothing was clicked, or what no chart sends
        return None, count
    if event == handled:
        return None, count
    st.session_state[f"{key}-seen"] = (count + 1, event)
    row, column, _ = event
    inside = 0 <= row < rows and 0 <= column < columns
    return (row, column) if inside else None, count + 1
