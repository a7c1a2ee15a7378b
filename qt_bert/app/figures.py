"""Figures on the page: charts that can be pointed at and clicked, and their numbers to take away.

Clicks. The browser keeps its selection over the runs, and tells nothing where the same cell is
clicked again. So clicks are numbered: a cell's data carry the number of clicks so far, a selection
is new where it was not there in the last run, and the same cell with another number is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import streamlit as st

from qt_bert.app.widgets import escaped, language, say
from qt_bert.charts import CLICKED, FONTS, chart
from qt_bert.figures import Bars, Cell, Curve, Figure, Graph, HeatMap, Scatter, Tokens
from qt_bert.results.palette import DARK, LIGHT, Palette
from qt_bert.text import Label, Words, csv_bytes
from qt_bert.token_rows import token_rows

_NARROW = 8
"""A heat map of more columns takes the width there is; other figures are as wide as in a report."""


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
    plain = "".join(c if c.isalnum() and c.isascii() else "-" for c in key)
    clicked, clicks, more = None, None, {}
    with st.container(key=f"figure-{plain}", gap="small"):
        if not bare:
            st.markdown(f"**{escaped(say(figure.title))}**")
        if isinstance(figure, Tokens):
            st.html(token_rows(figure, language(), palette()))
        else:
            wide = isinstance(figure, HeatMap) and len(figure.columns) > _NARROW
            if click and isinstance(figure, HeatMap):
                name = f"click-{key}"
                clicked, clicks = new_click(name, len(figure.rows), len(figure.columns))
                more = {"key": name, "on_select": "rerun"}
            drawn = chart(figure, language(), palette(), clicks=clicks)
            width = "stretch" if wide else round(drawn.width + 220)
            show_chart(drawn, width=width, alt=say(figure.title), **more)
        if not bare:
            if figure.note is not None:
                st.caption(escaped(say(figure.note)))
            _save_buttons(figure, f"save-{key}")
    return clicked


def palette() -> Palette:
    """The colours of the visitor's theme; light until the browser has said."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def show_chart(drawn: Any, *, width: Any = "stretch", **more: Any) -> None:
    """Show an Altair chart in its own colours, as wide as its place or as `width` says."""
    import altair as alt

    drawn.autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    drawn.config.font = FONTS
    st.altair_chart(drawn, width=width, theme=None, **more)


def new_click(key: str, rows: int, columns: int) -> tuple[Cell | None, int]:
    """The cell of a click on the chart `key` that nobody has asked for yet; the clicks so far."""
    count, handled = st.session_state.get(f"{key}-seen", (0, None))
    try:
        (found,) = st.session_state[key]["selection"][CLICKED]
        event = int(found["row"]), int(found["column"]), int(found["click"])
    except (KeyError, TypeError, ValueError):  # nothing was clicked, or what no chart sends
        return None, count
    if event == handled:
        return None, count
    st.session_state[f"{key}-seen"] = (count + 1, event)
    row, column, _ = event
    inside = 0 <= row < rows and 0 <= column < columns
    return (row, column) if inside else None, count + 1


def _save_buttons(figure: Figure, key: str) -> None:
    """CSV and SVG behind one small button; the files are made when they are asked for."""
    shown = language()

    def svg() -> bytes:
        from qt_bert.report.figures import svg_file

        return svg_file(figure, shown)

    files = {"CSV": ("text/csv", lambda: csv_of(figure, shown)), "SVG": ("image/svg+xml", svg)}
    if isinstance(figure, Tokens):
        del files["SVG"]
    with st.popover(say("保存", "Save"), icon=":material/download:", type="tertiary"):
        for name, (mime, made) in files.items():
            ending = name.lower()
            st.download_button(
                name,
                data=made,
                file_name=f"{figure.name}.{ending}",
                mime=mime,
                on_click="ignore",
                key=f"{key}-{ending}",
            )


def csv_of(figure: Figure, language: str) -> bytes:
    """One row a cell, point, bar, token, arrow or mark, under names; UTF-8 that Excel recognises."""
    rows = list(_rows(figure, Words(language)))
    return csv_bytes([rows[0], *(row.values() for row in rows)] if rows else [])


def _rows(figure: Figure, say: Words) -> Iterator[dict[str, object]]:
    def said(label: Label | None) -> str | None:
        return None if label is None else say(label)

    match figure:
        case HeatMap():
            for i, row in enumerate(figure.rows):
                for j, column in enumerate(figure.columns):
                    cell = {"row": say(row), "column": say(column), "value": figure.values[i][j]}
                    note = figure.annotations[i][j] if figure.annotations is not None else None
                    marked = int((i, j) in figure.marked)
                    yield {**cell, "unit": say(figure.unit), "marked": marked, "note": note}
        case Bars():
            for bars in figure.series:
                ends = bars.intervals or [None] * len(figure.categories)
                for name, value, end in zip(figure.categories, bars.values, ends, strict=True):
                    low, high = end or (None, None)
                    bar = {"category": say(name), "series": say(bars.name), "value": value}
                    yield {**bar, "low": low, "high": high, "unit": say(figure.unit)}
        case Curve():
            for line in figure.series:
                for p in line.points:
                    point = {"series": say(line.name), "x": p.x, "y": p.y, "low": p.low}
                    yield {**point, "high": p.high, "n": p.n, "unit": say(figure.unit)}
        case Tokens():
            for row in figure.lines:
                for t in row.tokens:
                    token = {"line": say(row.name), "token": say(t.text), "value": t.value}
                    marks = {"marked": int(t.marked), "ends_word": int(t.ends_word)}
                    yield {**token, **marks, "unit": say(figure.unit), "note": said(t.note)}
        case Graph():
            for edge in figure.edges:
                ends = {"from": edge.source, "to": edge.target}
                yield {**ends, "weight": edge.weight, "unit": say(figure.unit)}
        case Scatter():
            numbers = ("x", "x_low", "x_high", "y", "y_low", "y_high")
            units = {"x_unit": say(figure.x_unit), "y_unit": say(figure.y_unit)}
            for mark in figure.points:
                names = {"series": say(mark.series), "label": said(mark.label)}
                yield {**names, **{n: getattr(mark, n) for n in numbers}, **units}
