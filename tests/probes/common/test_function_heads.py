"""Heads of a function: as named, as asked for, the best where none is named, and none at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.naming import FunctionHeads, function_heads
from qt_bert.results.probe import HeadScores, ProbeResult
from tests.probes.matching_found import matching_found
from tests.results.made_stability import LOOSE

SHAPE = Shape(2, 4)


def context(find: Callable[[str], ProbeResult], heads: str | None = None) -> Any:
    model = SimpleNamespace(checkpoint=SimpleNamespace(shape=SHAPE))
    return SimpleNamespace(model=model, heads=heads, found=find)


def test_those_that_passed_the_bars_are_named() -> None:
    found = function_heads(context(matching_found(SHAPE, ("L1H2", "L0H1"), ("L1H2",))), "matching")
    assert found == FunctionHeads("matching", (Head(1, 2),), True, "probe")
    assert found.status == "named"
    assert found.describe() == {"heads": ["L1H2"], "named": True, "source": "probe"}
    assert found.below(1).heads == ()


def test_without_a_named_one_the_best_stand_in_and_say_so() -> None:
    found = function_heads(context(matching_found(SHAPE, ("L1H2", "L0H1"))), "matching")
    assert found.heads == (Head(1, 2), Head(0, 1)) and found.status == "not_named"
    by_score = function_heads(context(matching_found(SHAPE)), "matching")
    assert by_score.heads == tuple(SHAPE.all_heads[:5]) and not by_score.named


def test_a_set_that_is_not_stable_says_so_wherever_it_is_shown() -> None:
    find = matching_found(SHAPE, ("L1H2", "L0H1"), ("L1H2", "L0H1"))
    loose = replace(find("matching"), stability={"matching": LOOSE})
    found = function_heads(context(lambda name: loose), "matching")
    assert found is not None and found.unstable
    assert found.status == "unstable" and found.below(1).heads == (Head(0, 1),)
    assert replace(found, named=False).status == "not_named"
    stable = replace(loose, stability={"matching": replace(LOOSE, verdict="stable")})
    kept = function_heads(context(lambda name: stable), "matching")
    assert kept is not None and kept.status == "named"


@pytest.mark.parametrize(
    ("function", "forward", "passed", "score"),
    [("order", "order", "order_named", "score"), ("boundary", "boundary", "boundary", "")],
)
def test_other_functions_have_sets_and_scores_of_their_own(
    function: Any, forward: str, passed: str, score: str
) -> None:
    whole = matching_found(SHAPE)("matching")
    named = replace(whole, sets={forward: ("L1H1", "L0H0"), passed: ("L1H1", "L0H0")})
    found = function_heads(
        context(lambda name: named, "L1H3"), function
    )  # --heads are matching ones
    assert found == FunctionHeads(function, (Head(1, 1), Head(0, 0)), True, "probe")
    heads = tuple(
        HeadScores(head=f"L0H{head}", scores={score or "discovery_balanced": value})
        for head, value in enumerate((0.5, None, 0.9, 0.7))
    )
    without = replace(whole, sets={forward: (), passed: ()}, heads=heads)
    best = function_heads(context(lambda name: without), function)
    assert best.heads == (Head(0, 2), Head(0, 3), Head(0, 0)) and not best.named


def test_heads_of_the_user_count_as_named() -> None:
    found = function_heads(context(matching_found(SHAPE), "L1H0 L0H3"), "matching")
    assert found == FunctionHeads("matching", (Head(0, 3), Head(1, 0)), True, "option")
    with pytest.raises(ArgumentError, match="no head L7H0"):
        function_heads(context(matching_found(SHAPE), "L7H0"), "matching")


def test_where_nothing_was_scored() -> None:
    assert function_heads(context(matching_found(SHAPE, scored=False)), "matching") is None
