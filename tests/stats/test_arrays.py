from __future__ import annotations

import warnings

import numpy as np

from qt_bert.stats.arrays import count_cells, fractional_ranks, ratio, sum_by


def test_a_zero_denominator_gives_nan_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ratio(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    np.testing.assert_equal(found, [0.5, np.nan])


def test_sums_keep_empty_groups() -> None:
    found = sum_by(np.array([2, 0, 2]), np.array([1, 2, 3]), 4)
    assert found.tolist() == [2, 0, 4, 0]


def test_cells_are_counted_in_each_group() -> None:
    found = count_cells(np.array([0, 1, 1]), np.array([2, 0, 0]), 2, 3)
    assert found.tolist() == [[0, 0, 1], [2, 0, 0]]


def test_ranks_of_ties_are_shared() -> None:
    assert fractional_ranks(np.array([5.0, 1.0, 5.0, 9.0])).tolist() == [0.625, 0.25, 0.625, 1.0]
