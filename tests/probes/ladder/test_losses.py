"""Losses of rungs, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.probes.ladder.made import climbed, made_losses


def test_losses_are_points_above_zero_where_grades_get_worse() -> None:
    losses, ladder = made_losses([0, 10, 40]), climbed(3)
    told = [losses.loss(variant, "accuracy") for variant in ladder.rungs.values()]
    assert [one.value for one in told] == pytest.approx([0, 10, 40])
    assert (told[0].low, told[0].high) == (0, 0)
    # Of 100 queries ten are wrong: 10 ± 1.96 · 100 · √(0.1 · 0.9 / 100) points.
    assert told[1].low == pytest.approx(4.1, abs=1.5)
    assert told[1].high == pytest.approx(15.9, abs=1.5)
    grade = losses.loss(ladder.rungs[2], "expected_grade")
    assert grade.value == pytest.approx(-0.3, abs=1e-2)  # ten of a hundred rise by three grades


def test_steps_are_what_each_rung_loses_beyond_the_one_below() -> None:
    losses, ladder = made_losses([5, 5, 25]), climbed(3)
    stacked = losses.stack(ladder, "accuracy")
    assert stacked.shape == (4, 401)
    assert stacked[:, 0] == pytest.approx([0, 5, 5, 25])
    steps = losses.steps(ladder, "accuracy")
    assert [one.value for one in steps] == pytest.approx([5, 0, 20])
    assert (steps[1].low, steps[1].high) == (0, 0)
    assert losses.stack(ladder, "pairwise_accuracy") is None  # one title a query
    assert losses.steps(ladder, "pairwise_accuracy") == []


def test_what_changes_is_told_from_what_does_not() -> None:
    losses, ladder = made_losses([0, 30]), climbed(2)
    assert losses.q(ladder, "accuracy") == {1: 1.0, 2: pytest.approx(0.002, abs=0.002)}
    low, high = ladder.rungs[1], ladder.rungs[2]
    assert losses.swapped_p(high, low, "accuracy") == pytest.approx(1 / 1000)
    assert losses.swapped_p(low, low, "accuracy") == 1
    apart = losses.change(high, "spearman").less(losses.change(low, "spearman"))
    assert losses.swapped_p(high, low, "spearman") <= 0.01 and apart.value < 0


def test_a_single_query_has_no_interval() -> None:
    losses, ladder = made_losses([30], queries=1), climbed(1)
    loss = losses.loss(ladder.rungs[1], "accuracy")
    assert loss.value == pytest.approx(30) and (loss.low, loss.high) == (None, None)
    assert np.isfinite(losses.effects.base("accuracy"))
