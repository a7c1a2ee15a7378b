"""Clicks on a chart."""

from __future__ import annotations

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


def test_a_click_is_told_in_one_run(page):
    assert page() == (None, 0)
    assert page((1, 2, 0)) == ((1, 2), 1)
    assert page() == (None, 1)  # the browser's selection still stands


def test_the_same_cell_again_is_another_click(page):
    assert page((1, 2, 0)) == ((1, 2), 1)
    assert page((1, 2, 1)) == ((1, 2), 2)


def test_a_quick_second_click_is_not_lost(page):
    assert page((1, 2, 0)) == ((1, 2), 1)
    assert page((0, 0, 0)) == ((0, 0), 2)  # made before the browser knew the new number


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


def test_a_cell_outside_the_map_is_no_click(page):
    assert page((7, 0, 0)) == (None, 1)
