"""What a click is, and the grid of heads."""

from __future__ import annotations

from typing import Any

import pytest

from qt_bert.charts import CLICKED
from qt_bert.page import figures as clicks
from qt_bert.page import visit
from qt_bert.results.palette import LIGHT


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


NOBODY = {"row": -1, "column": -1}


def test_the_specification_begins_with_the_heads_left_out():
    spec = visit.grid_of(2, 3, frozenset({(1, 2)}), LIGHT).to_dict()
    assert spec["params"][0]["value"] == [NOBODY, {"row": 1, "column": 2}]
    assert spec["params"][0]["select"]["fields"] == ["row", "column"]
    assert spec["data"]["values"][-1] == {"row": 1, "column": 2, "name": "L1H2"}


@pytest.mark.parametrize(
    ("found", "heads"),
    [
        ([NOBODY], frozenset()),
        ([NOBODY, {"row": 1, "column": 2}, {"row": 0, "column": 0}], frozenset({(0, 0), (1, 2)})),
        ([NOBODY, {"row": 9, "column": 0}], frozenset()),
        ([], None),
        ({}, None),
        ([{"row": "x", "column": 0}], None),
    ],
)
def test_a_selection_is_a_set_of_heads(found, heads):
    assert visit.chosen_in({"selection": {"heads": found}}, 2, 3) == heads


def test_nothing_is_no_selection():
    assert visit.chosen_in(None, 2, 3) is None
