from __future__ import annotations

from collections import Counter

import pytest

from qt_bert.ablation.importance import importance_on
from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head
from qt_bert.planning.choice import HeadPath, choose_heads, head_rivals
from tests.planning.choice.conftest import graded, zero


def test_orders_of_all_heads(scorer_of) -> None:
    scorer, pairs = scorer_of(heads=4), graded()
    heads = scorer.checkpoint.shape.all_heads
    found = head_rivals(scorer, pairs, draws=3, seed=1)
    assert {name: len(orders) for name, orders in found.items()} == {
        "gradient": 1,
        "random": 3,
        "low_layers": 3,
    }
    for orders in found.values():
        assert len(set(orders)) == len(orders)
        assert all(sorted(order) == heads for order in orders)
    importance = importance_on(scorer, pairs)
    ranked = [importance[head] for head in found["gradient"][0]]
    assert ranked == sorted(ranked)
    for order in found["low_layers"]:
        assert [head.layer for head in order] == [2] * 4 + [1] * 4 + [0] * 4


def test_more_draws_leave_the_earlier_ones(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded(6)
    few, many = (head_rivals(scorer, pairs, draws=draws, seed=7) for draws in (2, 4))
    assert many["random"][:2] == few["random"] and many["low_layers"][:2] == few["low_layers"]
    assert head_rivals(scorer, pairs, draws=2, seed=8)["random"] != few["random"]


def test_matched_takes_as_many_of_each_layer_at_every_budget(scorer_of) -> None:
    scorer, pairs = scorer_of(heads=4), graded()
    chosen = choose_heads(scorer, pairs, 8, mask=zero)
    found = head_rivals(scorer, pairs, draws=4, seed=0, chosen=chosen)
    assert len(found["matched"]) == 4 and len(set(found["matched"])) > 1
    for order in found["matched"]:
        assert len(set(order)) == 8
        for budget in range(9):
            ours, theirs = (
                Counter(head.layer for head in one[:budget]) for one in (chosen.order, order)
            )
            assert ours == theirs


def test_single_effects_are_summed(scorer_of) -> None:
    effects = {Head(0, 0): 0.2, Head(0, 1): -0.1, Head(1, 0): 0.0}
    chosen = HeadPath((Head(0, 1), Head(1, 0)), (0, 1), effects, 1.0)
    found = head_rivals(scorer_of(), graded(6), draws=1, seed=0, chosen=chosen)
    assert found["single"] == [(Head(0, 1), Head(1, 0), Head(0, 0))]
    once = HeadPath((Head(0, 1), Head(1, 0)), (0, 0), effects, 1.0)
    assert "single" not in head_rivals(scorer_of(), graded(6), draws=1, seed=0, chosen=once)


def test_importance_in_float32_whatever_the_dtype(scorer_of) -> None:
    exact, short = (
        head_rivals(scorer_of(dtype=dtype), graded(), draws=1, seed=0)["gradient"]
        for dtype in ("float32", "bfloat16")
    )
    assert exact == short


def test_faults_are_named(scorer_of) -> None:
    for draws, seed in ((0, 0), (1, -1)):
        with pytest.raises(ArgumentError, match="at least one draw, and no seed below 0"):
            head_rivals(scorer_of(), graded(), draws=draws, seed=seed)
