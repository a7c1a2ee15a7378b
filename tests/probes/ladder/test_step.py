"""Where a ladder steps down, and how far from the matching heads."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.models.heads import Head
from qt_bert.probes.ladder.step import half_way, largest_step, step_of
from tests.probes.ladder.made import climbed, made_losses


def columns(*ladders: list[float]) -> np.ndarray:
    """Losses of rungs 0 … n, a column each."""
    return np.array(ladders, float).T


def test_half_way_by_hand() -> None:
    sharp, even, late = [0, 0, 8, 8, 8], [0, 2, 4, 6, 8], [0, 0, 0, 0, 8]
    back = [0, 6, 2, 2, 8]  # the first rung that loses half, whatever comes above it
    found = half_way(columns(sharp, even, late, back))
    np.testing.assert_array_equal(found, [1, 1, 3, 0])
    nothing, gain = [0, 1, 1, 1, 0], [0, 0, 0, 0, -3]
    assert np.isnan(half_way(columns(nothing, gain, [0, 1, 1, 1, np.nan]))).all()


def test_the_largest_step_by_hand() -> None:
    found = largest_step(columns([0, 1, 5, 6, 8], [0, 2, 4, 6, 8], [0, 0, 0, 0, -1]))
    np.testing.assert_array_equal(found, [1, 0, np.nan])


def test_the_step_beside_the_heads() -> None:
    heads = [Head(1, 0), Head(1, 3), Head(2, 1), Head(5, 0)]
    step = step_of(made_losses([0, 0, 90, 90, 90, 90]), climbed(6), heads)
    assert (step.half.value, step.largest.value, step.middle) == (2, 2, 1.5)
    assert step.by_chance == pytest.approx(2 / 6)  # layers 1 and 2
    apart = step.apart
    assert apart.value == 0.5 and apart.samples.shape == (400,)
    assert np.unique(apart.samples).tolist() == [0.5]


def test_no_step_where_nothing_is_lost_and_no_distance_without_heads() -> None:
    step = step_of(made_losses([0, 0, 0]), climbed(3), [Head(0, 0)])
    assert np.isnan([step.half.value, step.largest.value, step.apart.value]).all()
    assert np.isnan(step.half.samples).all()
    alone = step_of(made_losses([0, 90, 90]), climbed(3), [])
    assert alone.half.value == 1 and alone.apart is None and alone.by_chance is None
