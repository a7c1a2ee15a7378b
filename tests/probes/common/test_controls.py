"""Targeted heads against random ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.controls import contest, rank_p

SHAPE = Shape(4, 4)
TARGET = [Head(0, 1), Head(0, 2), Head(3, 0)]


def test_each_control_is_matched_as_it_says() -> None:
    norms = np.arange(16.0).reshape(4, 4) + 1
    made = contest("five", TARGET, SHAPE, matched=9, free=7, seed=0, norms=norms)
    assert made.variants[0].heads == tuple(TARGET)
    assert (len(made.matched), len(made.free), len(made.loud)) == (3, 7, 9)  # there are but three
    for one in made.matched:
        assert Counter(head.layer for head in one.heads) == {0: 2, 3: 1}
        assert not set(one.heads) & set(TARGET)
    assert {len(one.heads) for one in (*made.free, *made.loud)} == {3}
    assert all(not set(one.heads) & set(TARGET) for one in made.loud)
    names = [one.name for one in made.variants]
    assert len(set(names)) == len(names) and all(name.startswith("five") for name in names)


def test_fewer_sets_than_draws_are_all_taken() -> None:
    made = contest("one", TARGET, SHAPE, matched=99, free=0, seed=0)
    assert len(made.matched) == 1 * 3  # the two others of layer 0, one of three in layer 3


def test_loud_controls_are_near_in_norm() -> None:
    norms = np.ones(SHAPE.size)
    norms[2] = 100.0
    made = contest("loud", [Head(2, 0)], SHAPE, matched=20, free=0, seed=0, norms=norms)
    near = [one for one in made.loud if one.heads[0].layer == 2]
    assert 0 < len(near) < 20  # three of the eight nearest are as loud


def test_a_layer_without_others_leaves_the_control_empty() -> None:
    whole = [Head(1, number) for number in range(4)]
    assert contest("layer", whole, SHAPE, matched=9, free=3, seed=0).matched == ()


def test_heads_that_the_model_lacks_are_refused() -> None:
    with pytest.raises(ArgumentError):
        contest("wrong", [Head(9, 0)], SHAPE, matched=9, free=3, seed=0)


@pytest.mark.parametrize(
    ("value", "below", "p"), [(-5.0, True, 1 / 5), (-2.0, True, 3 / 5), (9.0, False, 1 / 5)]
)
def test_rank_p(value: float, below: bool, p: float) -> None:
    controls = np.array([-3.0, -2.0, 0.0, 1.0])
    assert rank_p(value, controls, below=below) == pytest.approx(p)


def test_an_undefined_control_counts_as_extreme() -> None:
    assert rank_p(-5.0, np.array([0.0, np.nan, 0.0])) == pytest.approx(2 / 4)
    assert rank_p(float("nan"), np.array([0.0])) is None
    assert rank_p(-5.0, np.empty(0)) is None
