"""Least squares and agreement: planted truths, a plain reference, what does not vary."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from qt_bert.probes.surrogate.fit import agreements, correlations, predictions
from qt_bert.stats.intervals import bootstrap_weights

RNG = np.random.default_rng(0)
KNOWN, NEW = RNG.normal(size=(60, 3)), RNG.normal(size=(40, 3))
QUERIES = [f"q{row // 2}" for row in range(40)]


def linear(features: np.ndarray) -> np.ndarray:
    return np.asarray(2 + features @ [1.0, -2.0, 0.5])


def test_a_linear_truth_is_found_whole() -> None:
    said = predictions(KNOWN, linear(KNOWN), NEW)
    np.testing.assert_allclose(said, linear(NEW))
    [found] = agreements(said[None], linear(NEW), QUERIES, 200, 0)
    assert found.r.value == pytest.approx(1) and found.r2.value == pytest.approx(1)
    np.testing.assert_allclose(found.r.samples, 1)


def test_a_random_target_is_not() -> None:
    target, others = RNG.normal(size=60), RNG.normal(size=40)
    [found] = agreements(predictions(KNOWN, target, NEW)[None], others, QUERIES, 200, 0)
    low, high = np.quantile(found.r.samples, [0.025, 0.975])
    assert low < 0 < high and abs(found.r.value) < 0.35
    assert found.r2.value < 0.1


def test_as_a_library_has_it() -> None:
    target = linear(KNOWN) + RNG.normal(size=60)
    others = linear(NEW) + RNG.normal(size=40)
    said = predictions(KNOWN, target, NEW)
    np.testing.assert_allclose(said, LinearRegression().fit(KNOWN, target).predict(NEW))
    first, shifted = agreements(np.stack([said, 3 * said + 1]), others, QUERIES, 50, 1)
    assert first.r.value == pytest.approx(np.corrcoef(said, others)[0, 1])
    assert first.r2.value == pytest.approx(r2_score(others, said))
    assert shifted.r.value == pytest.approx(first.r.value)
    assert shifted.r2.value == pytest.approx(r2_score(others, 3 * said + 1))
    weights = np.concatenate(list(bootstrap_weights(20, 50, 1, width=9)))
    for row in (0, 17, 49):
        again = np.repeat(np.arange(40), weights[row].astype(int)[np.arange(40) // 2])
        want = np.corrcoef(said[again], others[again])[0, 1]
        assert first.r.samples[row] == pytest.approx(want)
        assert first.r2.samples[row] == pytest.approx(r2_score(others[again], said[again]))


def test_what_does_not_vary() -> None:
    constant = predictions(np.ones((60, 1)) * 0.3, linear(KNOWN), np.ones((40, 1)) * 0.3)
    [found] = agreements(constant[None], linear(NEW), QUERIES, 20, 0)
    assert found.r.value == 0 and (found.r.samples == 0).all() and found.r2.value <= 0
    [flat] = agreements(NEW[:, 0][None], np.full(40, 2.5), QUERIES, 20, 0)
    assert np.isnan(flat.r.value) and np.isnan(flat.r2.value)


def test_correlations_of_every_head() -> None:
    features = RNG.normal(size=(40, 2, 3))
    features[:, 1, 2] = 0.25
    target = linear(NEW)
    found = correlations(features, target)
    assert found[0, 1] == pytest.approx(np.corrcoef(features[:, 0, 1], target)[0, 1])
    assert np.isnan(found[1, 2]) and np.isfinite(found).sum() == 5
