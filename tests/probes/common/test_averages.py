"""Means over queries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from qt_bert.probes.naming import average, means, resampled_ratio


def test_a_mean_skips_silent_queries_and_is_tested() -> None:
    values = np.array([0.1, np.nan, 0.4, 0.3])
    found = average(values, 400, 0)
    known = values[[0, 2, 3]]
    assert (found.value, found.n_queries) == (pytest.approx(0.8 / 3), 3)
    assert found.p_above == pytest.approx(ttest_1samp(known, 0, alternative="greater").pvalue)
    assert found.p_below == pytest.approx(1 - found.p_above)
    low, high = np.nanmin(found.samples), np.nanmax(found.samples)
    assert 0.1 - 1e-9 <= low < high <= 0.4 + 1e-9
    nothing = average(np.array([np.nan, np.nan]), 400, 0)
    assert np.isnan(nothing.value) and nothing.samples.size == 0


def test_a_ratio_of_sums_is_resampled_by_unit() -> None:
    sums, counts = np.array([2.0, 6.0, 0.0]), np.array([1.0, 2.0, 0.0])
    found = resampled_ratio(sums, counts, 300, 0)
    # Three draws of (2, 1), (6, 2) and (0, 0); of the last alone nothing is known.
    assert set(found[np.isfinite(found)].round(6)) == {2.0, 2.5, round(8 / 3, 6), 2.8, 3.0}
    assert np.isnan(found).mean() == pytest.approx(1 / 27, abs=0.03)


def test_averages_leave_silent_queries_out() -> None:
    found = average(np.array([1.0, np.nan, 3.0]), 50, 0)
    assert (found.value, found.n_queries, len(found.samples)) == (2.0, 2, 50)
    assert np.isnan(average(np.array([np.nan]), 50, 0).value)
    assert not average(np.array([1.0]), 50, 0).samples.size
    twice = average(np.array([2.0, np.nan, 6.0]), 50, 0)
    np.testing.assert_allclose(twice.over(found).samples, 2.0)
    np.testing.assert_array_equal(means(np.array([[1.0, np.nan], [3.0, np.nan]])), [2.0, np.nan])
