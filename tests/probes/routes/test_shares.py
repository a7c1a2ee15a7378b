"""Shares from sums by hand: ratios of sums, what is not told from 0, controls in the set's own unit."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.probes.routes.passes import WAYS, Changes
from qt_bert.probes.routes.shares import Shares
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval


def shares(total: FloatArray, direct: FloatArray, resamples: int = 500) -> Shares:
    """From focus [queries, senders] through `k`; the grade does not change, other entries give 0."""
    sums = np.zeros((2, *total.shape, 1, len(WAYS)))
    sums[0, ..., 0, WAYS.index("total")] = total
    sums[0, ..., 0, WAYS.index("k")] = direct
    pairs = np.full((2, 1), 2.0 * len(total))
    return Shares(Changes(sums, pairs), resamples, seed=0)


def test_a_share_is_a_ratio_of_sums() -> None:
    """One pair that hardly moves does not own it, as it would own a mean of ratios."""
    total = np.array([[-1.0], [-2.0], [-3.0], [-0.001]])
    direct = np.array([[-0.5], [-1.5], [-1.0], [-1.0]])
    found = shares(total, direct)
    assert found.share("focus", "k").value == pytest.approx(4.0 / 6.001)
    assert found.share("focus", "q").value == 0
    assert found.change("focus").value == pytest.approx(-6.001 / 8)
    assert found.n_queries == 4 and found.n_pairs("focus") == 8


def test_numerator_and_denominator_are_resampled_together() -> None:
    total = np.arange(1.0, 21)[:, None]
    ends = percentile_interval(shares(total, 0.25 * total).share("focus", "k").samples)
    assert ends == pytest.approx((0.25, 0.25))


def test_no_share_of_a_change_that_may_be_nothing() -> None:
    even = np.array([[1.0], [-1.0]] * 10)
    found = shares(even, even)
    assert not found.told("focus") and not found.told("grade")
    assert np.isnan(found.share("focus", "k").value)
    assert found.beyond("focus", "k")[1] is None
    alone = shares(np.ones((1, 1)), np.ones((1, 1)))  # a single query has no interval
    assert np.isnan(alone.share("focus", "k").value)
    assert alone.change("focus").value == pytest.approx(0.5)


def test_controls_are_measured_in_the_units_of_the_set() -> None:
    """A control whose own change is next to nothing has a small share here, and a huge one of its own."""
    queries = 10
    total = np.tile([-1.0, -0.5, -0.001], (queries, 1))
    direct = np.tile([-0.6, -0.1, -0.05], (queries, 1))
    found = shares(total, direct)
    assert found.controls("focus", "k").value == pytest.approx((0.1 + 0.05) / 2)
    assert found.share("focus", "k", 2).value == pytest.approx(50)
    assert found.share("focus", "k", 2, of=0).value == pytest.approx(0.05)
    assert found.pooled("focus", "k").value == pytest.approx(0.15 / 0.501)
    beyond, p = found.beyond("focus", "k")
    assert beyond.value == pytest.approx(0.6 - 0.075) and p == pytest.approx(1 / 3)
    ends = percentile_interval(beyond.samples)
    assert ends is not None and ends[0] < 0.525 < ends[1]  # the chance of the draws alone


def test_a_control_that_sends_more_counts_against_the_set() -> None:
    total = np.tile([-1.0, -0.5, -0.5], (10, 1))
    beyond, p = shares(total, np.tile([-0.2, -0.4, -0.2], (10, 1))).beyond("focus", "k")
    assert beyond.value == pytest.approx(-0.1) and p == 1.0


def test_without_controls_there_is_nothing_to_compare_with() -> None:
    found = shares(np.ones((5, 1)), np.ones((5, 1)))
    beyond, p = found.beyond("focus", "k")
    assert np.isnan(beyond.value) and p is None
    assert np.isnan(found.pooled("focus", "k").value)
