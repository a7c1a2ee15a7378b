"""Rank correlation of resampled values, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from qt_bert.probes.naming import rank_correlation


def test_column_by_column_as_scipy_has_it() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 12, 3))
    other[:4, 0] = other[5, 0]  # ties
    expected = [spearmanr(a, b).statistic for a, b in zip(one.T, other.T, strict=True)]
    np.testing.assert_allclose(rank_correlation(one, other), expected)
    assert rank_correlation(one, -one) == pytest.approx(-1)


def test_constants_have_none() -> None:
    assert np.isnan(rank_correlation(np.ones((5, 1)), np.arange(5.0)[:, None])).all()
