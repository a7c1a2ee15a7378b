"""Means over random draws."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.probes.naming import mean_over


def test_one_draw_has_the_chance_of_the_queries_alone() -> None:
    samples = np.array([[1.0, 2.0, 4.0]])
    np.testing.assert_array_equal(mean_over(samples, 0, "out"), samples[0])


def test_the_spread_is_that_of_a_mean_over_draws() -> None:
    """Draws that the queries do not move: the standard error is s / √D, with D − 1 in s."""
    values = np.array([1.0, 2.0, 4.0, 9.0])
    samples = np.repeat(values[:, None], 40_000, axis=1)
    found = mean_over(samples, 0, "out")
    assert found.mean() == pytest.approx(4, abs=0.05)
    assert found.std() == pytest.approx(values.std(ddof=1) / 2, rel=0.02)


def test_draws_of_another_name_are_drawn_apart() -> None:
    samples = np.random.default_rng(0).normal(size=(5, 9))
    np.testing.assert_array_equal(mean_over(samples, 0, "a"), mean_over(samples, 0, "a"))
    assert not np.array_equal(mean_over(samples, 0, "a"), mean_over(samples, 0, "b"))
    assert mean_over(np.empty((5, 0)), 0, "a").shape == (0,)
