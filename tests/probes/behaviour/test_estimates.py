"""Means over cases, their intervals over queries and their tests, by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from qt_bert.probes.behaviour.estimates import mean, swap_p


def test_queries_are_resampled_whole() -> None:
    # Two cases of one query and one of another: a resample holds either query twice, or both.
    found = mean(np.array([1.0, 1.0, 0.0]), ["a", "a", "b"], resamples=400, seed=1, swaps=0)
    assert found.value == pytest.approx(2 / 3)
    assert set(np.round(found.samples, 6)) == {0.0, round(2 / 3, 6), 1.0}
    assert np.mean(np.isclose(found.samples, 2 / 3)) == pytest.approx(0.5, abs=0.1)
    assert found.interval == (0.0, 1.0)
    assert (found.n, found.n_queries, found.p) == (3, 2, None)


def test_one_query_has_no_interval() -> None:
    found = mean(np.array([1.0, 0.0]), ["a", "a"], resamples=100, seed=0)
    assert found.value == 0.5 and found.interval is None and found.p == 1.0
    none = mean(np.empty(0), [], resamples=100, seed=0)
    assert np.isnan(none.value) and none.p is None


def test_p_is_the_share_of_sign_turns_at_least_as_large() -> None:
    sums = np.array([[3.0, 1.0], [2.0, -1.0], [1.5, 1.0], [0.5, -1.0]])
    signs = np.array(list(product((-1, 1), repeat=4)))
    exact = (np.abs(signs @ sums) >= np.abs(sums.sum(0)) - 1e-9).mean(axis=0)
    assert exact.tolist() == [2 / 16, 1.0]
    np.testing.assert_allclose(swap_p(sums, 20_000, 3), exact, atol=0.01)
    assert swap_p(sums[:, :1] * 0.1, 999, 3)[0] == swap_p(sums[:, :1], 999, 3)[0]


def test_no_effect_gives_even_p() -> None:
    rng = np.random.default_rng(5)
    found = swap_p(rng.normal(size=(25, 400)), 999, 0)
    assert np.mean(found < 0.05) == pytest.approx(0.05, abs=0.04)
    assert found.min() >= 1 / 1000
