"""Clicks on the cells of a heat map.

The browser keeps its selection over the runs, and tells nothing where the same cell is clicked
again. So clicks are numbered: a cell's data carry the number of clicks so far, a selection is new
where it was not there in the last run, and the same cell with another number is another one.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from qt_bert.app.draw.heat_map import CLICKED

Cell = tuple[int, int]
Event = tuple[int, int, int]


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
