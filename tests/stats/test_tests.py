"""Tests of one value against scipy, statsmodels and all patterns of signs."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import permutation_test
from statsmodels.stats.multitest import multipletests

from qt_bert.errors import ArgumentError
from qt_bert.stats.tests import q_values, rank_p, sign_flip_p


def test_sign_flips_of_few_queries_are_all_taken():
    values = np.random.default_rng(2).normal(1.5, 1, 8)
    sums = [np.dot(signs, values - 1) for signs in product((-1, 1), repeat=8)]
    at_least = np.abs(sums) >= abs(np.sum(values - 1)) - 1e-9
    p = sign_flip_p(values, 1)
    assert p == pytest.approx(at_least.mean())
    other = permutation_test((values - 1,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert p == pytest.approx(other.pvalue)


def test_drawn_sign_flips_approach_all_of_them():
    values = np.random.default_rng(4).normal(0.7, 1, 13)
    drawn = sign_flip_p(values, flips=8_000)
    exact = sign_flip_p(values, flips=2**13)
    assert exact * 2**13 == pytest.approx(round(float(exact) * 2**13))
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 8_000))


def test_drawn_p_is_never_zero_and_counts_ties():
    assert sign_flip_p(np.ones(60)) == 1 / 10_000
    few = np.zeros(72)
    few[:2] = -1
    assert sign_flip_p(few) == pytest.approx(0.5, abs=0.03)
    assert sign_flip_p(np.zeros(72)) == 1
    assert sign_flip_p(np.full(30, 0.1 + 0.2), 0.3) == 1


def test_columns_get_their_own_p_and_undefined_ones_none():
    values = np.random.default_rng(6).normal(0.3, 1, (40, 3))
    values[3, 1] = np.nan
    p = sign_flip_p(values, seed=3)
    assert p[0] == sign_flip_p(values[:, 0], seed=3)
    assert np.isnan(p[1])
    assert p[2] == sign_flip_p(values[:, 2], seed=3)
    assert np.isnan(sign_flip_p([]))


def test_rank_p_counts_the_target():
    assert [rank_p(0, 99), rank_p(4, 99), rank_p(19, 19)] == [0.01, 0.05, 1]


def test_q_values_agree_with_statsmodels_and_leave_untested_claims_out():
    p = [0.04, 0.001, 0.03, 0.5, 0.03, 1.0, 0.0]
    np.testing.assert_allclose(q_values(p), multipletests(p, method="fdr_bh")[1])
    assert q_values([None, 0.02, None, 0.04]) == [None, 0.04, None, 0.04]
    assert q_values([None]) == [None]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sign_flip_p(np.ones((2, 2, 2))), r"not \(queries,\)"),
        (lambda: q_values([0.1, 1.5]), r"in 0\.\.1"),
        (lambda: q_values([float("nan")]), r"in 0\.\.1"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()
