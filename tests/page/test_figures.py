"""Clicks on a chart."""

from typing import Any

import pytest

from qt_bert.charts import CLICKED
from qt_bert.page import figures as clicks


@pytest.fixture
def page(monkeypatch):
    """One chart's session; a click is the selection, which the browser keeps over the runs."""
    session: dict[str, Any] = {}
    monkeypatch.setattr(clicks.st, "session_state", session)

    def run(click: tuple[int, int, int] | None = None) -> tuple[tuple[int, int] | None, int]:
        if click is not None:
            found = dict(zip(("row", "column", "click"), click, strict=True))
            session["map"] = {"selection": {CLICKED: [found]}}
        return clicks.new_click("map", 2, 3)

    return run


@pytest.mark.parametrize(
    ("events", "cells"),
    [
        ([None, (1, 2, 0), None], [(None, 0), ((1, 2), 1), (None, 1)]),  # the selection remains
        ([(1, 2, 0), (1, 2, 1)], [((1, 2), 1), ((1, 2), 2)]),  # the same cell again
        ([(1, 2, 0), (0, 0, 0)], [((1, 2), 1), ((0, 0), 2)]),  # before the browser knew the count
        ([(7, 0, 0)], [(None, 1)]),  # outside the map
    ],
)
def test_each_click_counts_once(page, events, cells):
    assert [page(event) for event in events] == cells


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        {"selection": {}},
        {"selection": {CLICKED: []}},
        {"selection": {CLICKED: [{"row": "x", "column": 0, "click": 0}]}},
        {"selection": {CLICKED: [{"row": 0}, {"row": 1}]}},
    ],
)
def test_anything_else_is_no_click(page, state):
    clicks.st.session_state["map"] = state
    assert page() == (None, 0)
