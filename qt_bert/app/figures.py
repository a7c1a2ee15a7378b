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
from qt_bert.text import csv_bytes, in_language
from qt_bert.token_rows import token_rows

Event = tuple[int, int, int]
Row = tuple[str | float | int | None, ...]

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
    clicked = None
    with st.container(key=f"figure-{_plain(key)}", gap="small"):
        if not bare:
            st.markdown(f"**{escaped(say(figure.title))}**")
        if isinstance(figure, Tokens):
            st.html(token_rows(figure, language(), palette()))
        elif click and isinstance(figure, HeatMap):
            name = f"click-{key}"
            clicked = new_click(name, len(figure.rows), len(figure.columns))
            _show(figure, clicks=clicks_so_far(name), key=name, on_select="rerun")
        else:
            _show(figure)
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


def _show(figure: Any, *, clicks: int | None = None, **more: Any) -> None:
    drawn = chart(figure, language(), palette(), clicks=clicks)
    wide = isinstance(figure, HeatMap) and len(figure.columns) > _NARROW
    width = "stretch" if wide else round(drawn.width + 220)
    show_chart(drawn, width=width, alt=say(figure.title), **more)


def _plain(key: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in key)


# Clicks -------------------------------------------------------------------------------------------


def clicks_so_far(key: str) -> int:
    """The number of clicks on the chart `key`."""
    count, _ = st.session_state.get(f"{key}-seen", (0, None))
    return int(count)


def new_click(key: str, rows: int, columns: int) -> Cell | None:
    """The cell of a click on the chart `key` that nobody has asked for yet."""
    count, handled = st.session_state.get(f"{key}-seen", (0, None))
    event = event_of(st.session_state.get(key))
    if event is None or event == handled:
        return None
    st.session_state[f"{key}-seen"] = (count + 1, event)
    row, column, _ = event
    return (row, column) if 0 <= row < rows and 0 <= column < columns else None


def event_of(state: Any) -> Event | None:
    """(row, column, number) of the selection, as the browser sent it; anything else is none."""
    try:
        (found,) = state["selection"][CLICKED]
        return int(found["row"]), int(found["column"]), int(found["click"])
    except (KeyError, TypeError, ValueError):
        return None


# Saving -------------------------------------------------------------------------------------------


def _save_buttons(figure: Figure, key: str) -> None:
    """CSV and SVG behind one small button; the files are made when they are asked for."""
    shown = language()
    with st.popover(
        say("保存", "Save"),
        icon=":material/download:",
        type="tertiary",
        help=say(
            "表格（CSV），图还有矢量图（SVG）；位图（PNG）在图的右上角。",
            "A table (CSV), of charts also a vector picture (SVG); a bitmap (PNG) by the button at the "
            "chart's corner.",
        ),
    ):
        st.download_button(
            "CSV",
            data=lambda: csv_of(figure, shown),
            file_name=f"{figure.name}.csv",
            mime="text/csv",
            on_click="ignore",
            key=f"{key}-csv",
        )
        if not isinstance(figure, Tokens):
            st.download_button(
                "SVG",
                data=lambda: _svg(figure, shown),
                file_name=f"{figure.name}.svg",
                mime="image/svg+xml",
                on_click="ignore",
                key=f"{key}-svg",
            )


def _svg(figure: Figure, shown: str) -> bytes:
    from qt_bert.report.figures import svg_file

    return svg_file(figure, shown)


def csv_of(figure: Figure, language: str) -> bytes:
    """One row a cell, point, bar, token, arrow or mark, under names; UTF-8 that Excel recognises."""
    return csv_bytes(_rows(figure, language))


def _rows(figure: Figure, language: str) -> Iterator[Row]:
    match figure:
        case HeatMap():
            yield from _heat_map(figure, language)
        case Bars():
            yield from _bars(figure, language)
        case Curve():
            yield ("series", "x", "y", "low", "high", "n", "unit")
            unit = in_language(figure.unit, language)
            for series in figure.series:
                name = in_language(series.name, language)
                yield from ((name, p.x, p.y, p.low, p.high, p.n, unit) for p in series.points)
        case Tokens():
            yield from _tokens(figure, language)
        case Graph():
            unit = in_language(figure.unit, language)
            yield ("from", "to", "weight", "unit")
            yield from ((edge.source, edge.target, edge.weight, unit) for edge in figure.edges)
        case Scatter():
            yield from _scatter(figure, language)


def _heat_map(figure: HeatMap, language: str) -> Iterator[Row]:
    noted = figure.annotations is not None
    yield ("row", "column", "value", "unit", "marked", *(("note",) if noted else ()))
    unit, marked = in_language(figure.unit, language), set(figure.marked)
    columns = [in_language(label, language) for label in figure.columns]
    for i, label in enumerate(figure.rows):
        name = in_language(label, language)
        for j, column in enumerate(columns):
            note = (figure.annotations[i][j],) if figure.annotations is not None else ()
            yield (name, column, figure.values[i][j], unit, int((i, j) in marked), *note)


def _tokens(figure: Tokens, language: str) -> Iterator[Row]:
    noted = any(token.note is not None for line in figure.lines for token in line.tokens)
    yield ("line", "token", "value", "marked", "ends_word", "unit", *(("note",) if noted else ()))
    unit = in_language(figure.unit, language)
    for line in figure.lines:
        name = in_language(line.name, language)
        for t in line.tokens:
            said = None if t.note is None else in_language(t.note, language)
            marks = int(t.marked), int(t.ends_word)
            yield (name, t.text, t.value, *marks, unit, *((said,) if noted else ()))


def _bars(figure: Bars, language: str) -> Iterator[Row]:
    yield ("category", "series", "value", "low", "high", "unit")
    unit = in_language(figure.unit, language)
    for series in figure.series:
        name = in_language(series.name, language)
        for i, category in enumerate(figure.categories):
            low, high = (series.intervals[i] if series.intervals else None) or (None, None)
            yield (in_language(category, language), name, series.values[i], low, high, unit)


def _scatter(figure: Scatter, language: str) -> Iterator[Row]:
    names = ("x", "x_low", "x_high", "y", "y_low", "y_high")
    yield ("series", "label", *names, "x_unit", "y_unit")
    units = in_language(figure.x_unit, language), in_language(figure.y_unit, language)
    for mark in figure.points:
        label = None if mark.label is None else in_language(mark.label, language)
        numbers = (getattr(mark, name) for name in names)
        yield (in_language(mark.series, language), label, *numbers, *units)
