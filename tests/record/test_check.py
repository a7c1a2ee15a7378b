"""What counts as moved, and what a record is compared by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.record.check import compare, flat, moved, one_draw, told
from tests.record.make import store

BEST = "report/boundary/values/best_head"


def test_a_moved_value_is_named_with_both() -> None:
    result = compare({f"{BEST}/value": 61.2}, {f"{BEST}/value": 61.5})
    assert (result.moved, result.status) == ([f"{BEST}/value 61.2 → 61.5"], 1)
    result = compare({f"{BEST}/value": 61.2}, {f"{BEST}/value": 61.2009})  # within tolerance
    assert (result.moved, result.status) == ([], 0)


@pytest.mark.parametrize(
    ("name", "old", "new", "far"),
    [
        ("score/graded/whole/p_1", 0.2, 0.20003, True),
        ("score/graded/whole/expected_grade", 3.2, 3.20003, False),
        ("report/focus/heads/score", 0.2, 0.2002, True),
        ("report/focus/heads/score", 100.0, 100.005, False),
        (f"{BEST}/n_queries", 120, 121, True),
        (f"{BEST}/value", None, 0.0, True),
        (f"{BEST}/value", float("nan"), float("nan"), False),
        (f"{BEST}/p", 0.04, 0.05, False),
        (f"{BEST}/p", 0.04, 0.07, True),
        (f"{BEST}/p", 0.0321, 0.0323, False),
        (f"{BEST}/p", 0.0321, 0.0326, True),
        ("rejects/json/message", "a", "b", True),
    ],
)
def test_tolerances(name: str, old: object, new: object, far: bool) -> None:
    assert moved(name, old, new) is far


def test_one_draw_is_a_step_of_the_coarsest_grid_that_fits() -> None:
    assert one_draw(0.05) == pytest.approx(2.02 / 100)
    assert one_draw(0.0321) == pytest.approx(2.02 / 10_000)
    assert one_draw(0.123456) == 0


def test_new_and_gone_are_told_by_their_highest_path() -> None:
    old = {"report/space/values/a/value": 1.0, "report/space/values/a/p": 0.5, f"{BEST}/p": 0.5}
    result = compare(old, {f"{BEST}/p": 0.5, f"{BEST}/q": 0.5})
    assert (result.gone, result.new, result.status) == (["report/space"], [f"{BEST}/q"], 1)
    assert compare({}, {f"{BEST}/q": 0.5}).status == 0


def test_what_rounding_moves_is_no_fault_and_is_told() -> None:
    ties = {"*/boundary/*": "titles tie"}
    old = {f"{BEST}/value": 1.0, "report/boundary/sets/boundary": ["L0H0"]}
    result = compare(old, {f"{BEST}/value": 2.0}, ties)
    assert result.status == 0
    assert "named, */boundary/*: 2 (titles tie)" in told(result, ties)


def test_a_list_tells_how_many_moved_and_where_most() -> None:
    old = {"report/a/heads/head": ["L0H0", "L0H1"], "report/a/heads/score": [0.1, 0.2]}
    new = {"report/a/heads/head": ["L0H0", "L0H1"], "report/a/heads/score": [0.1, 0.3]}
    assert compare(old, new).moved == ["report/a/heads/score 1 of 2 moved, most at L0H1: 0.2 → 0.3"]
    assert compare(old, old | {"report/a/heads/score": [0.1]}).moved == [
        "report/a/heads/score has 1 entries in place of 2"
    ]


def test_the_order_of_a_set_does_not_count() -> None:
    name = "report/a/sets/matching"
    assert compare({name: ["L0H0", "L0H1"]}, {name: ["L0H1", "L0H0"]}).status == 0
    assert compare({name: ["L0H0"]}, {name: ["L0H1"]}).moved == [
        f"{name} 1 → 1 heads, without ['L0H0'], with ['L0H1']"
    ]


def test_a_folder_is_read_by_parts(tmp_path: Path) -> None:
    store(tmp_path / "report" / "a.json", {"values": {"x": {"p": 1 / 3}}, "rows": [[1, 2], []]})
    store(tmp_path / "sweep.json", {"variants": ["none"]})
    np.save(tmp_path / "sweep.logits.npy", np.ones((1, 2), np.float32))
    assert flat(tmp_path, ["report"]) == {
        "report/a/values/x/p": 0.333333333,
        "report/a/rows/0": [1, 2],
        "report/a/rows/1": [],
    }
    assert set(flat(tmp_path, ["sweep"])) == {"sweep/variants", "sweep.logits"}
