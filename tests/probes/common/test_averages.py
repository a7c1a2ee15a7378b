"""Means over queries."""

from __future__ import annotations

import numpy as np

from qt_bert.probes.naming import means


def test_means_leave_silent_queries_out() -> None:
    np.testing.assert_array_equal(means(np.array([[1.0, np.nan], [3.0, np.nan]])), [2.0, np.nan])
