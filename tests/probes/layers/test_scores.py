"""Scores by hand: accuracy, macro-F1, R², and their resamples by query."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.probes.layers.gravity import centre, entropy, gains
from qt_bert.probes.layers.scores import class_sums, number_sums
from qt_bert.stats.intervals import bootstrap_weights

GROUP = np.array([0, 0, 1, 2])
TRUE = np.array([0, 1, 1, 0])


def test_accuracy_and_macro_f1_by_hand() -> None:
    sums = class_sums(np.array([[0, 1, 0, 0], [1, 1, 1, 1]]), TRUE, GROUP, 3, 2)
    assert sums.score() == pytest.approx([3 / 4, 2 / 4])
    # Layer 0: class 0 is right twice, predicted 3 times, true twice: 4/5; class 1: 2/3.
    assert sums.macro_f1() == pytest.approx([(4 / 5 + 2 / 3) / 2, (0 + 4 / 6) / 2])


def test_a_class_that_is_neither_true_nor_predicted_has_no_f1() -> None:
    sums = class_sums(np.array([[0, 1, 1, 0]]), TRUE, GROUP, 3, 5)
    assert sums.macro_f1() == pytest.approx([1.0])


def test_r2_by_hand_is_against_the_mean_of_those_fitted() -> None:
    true, told = np.array([1.0, 2.0, 4.0]), np.array([[1.0, 3.0, 4.0]])
    sums = number_sums(told, true, np.array([0, 1, 1]), 2, centre=2.0)
    assert sums.score() == pytest.approx([1 - 1 / 5])  # distances from 2: 1, 0, 4
    assert np.isnan(sums.macro_f1()).all()


def test_a_resample_weighs_whole_queries() -> None:
    sums = class_sums(np.array([[0, 1, 0, 1]]), TRUE, GROUP, 3, 2)
    weights = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    # Query 0 has two right of two, query 1 none of one, query 2 none of one.
    assert sums.score(weights)[:, 0] == pytest.approx([2 / 4, 0.0])
    drawn = np.concatenate(list(bootstrap_weights(3, 50, 7, width=3)))
    assert sums.resampled(50, 7) == pytest.approx(sums.score(drawn))


def test_one_query_cannot_be_resampled() -> None:
    sums = class_sums(np.array([[0, 1, 0, 1]]), TRUE, np.zeros(4, np.int64), 1, 2)
    assert sums.resampled(50, 0).shape == (0, 1)


def test_gains_add_up_to_the_best_score_above_the_floor() -> None:
    scores = np.array([0.4, 0.6, 0.5, 0.9, 0.8])  # the floor, then r0 to r3
    found = gains(scores, scores)
    assert found == pytest.approx([0.2, 0.0, 0.3, 0.0])
    assert centre(found) == pytest.approx(2 * 0.3 / 0.5)


def test_gains_of_every_resample_have_a_floor_of_their_own() -> None:
    scores = np.array([[0.5, 0.6, 0.7], [0.4, 0.3, 0.2]])
    found = gains(scores, scores)
    assert found == pytest.approx(np.array([[0.1, 0.1], [0.0, 0.0]]))
    assert centre(found)[0] == pytest.approx(0.5)
    assert np.isnan(centre(found)[1])  # nothing is ever above the floor


def test_gains_are_told_by_other_scores_than_those_that_choose() -> None:
    choosing = np.array([0.4, 0.6, 0.5, 0.7, 0.9])
    told = np.array([0.4, 0.7, 0.9, 0.6, 0.8])
    # r0, r2 and r3 are the best so far: .4 → .7 → .6 → .8; r1, best of those that tell, is not asked.
    assert gains(choosing, told) == pytest.approx([0.3, 0.0, -0.1, 0.2])


def test_noise_on_a_flat_curve_gains_nothing_where_others_choose() -> None:
    rng = np.random.default_rng(0)
    one, other = 0.8 + 0.02 * rng.standard_normal((2, 4000, 14))
    one[:, 0] = other[:, 0] = 0.5
    assert gains(one, one)[:, 1:].sum(axis=1).mean() > 0.03
    assert gains(one, other)[:, 1:].mean(axis=0) == pytest.approx(0.0, abs=2e-3)


def test_entropy_is_that_of_the_weights() -> None:
    assert entropy(np.full(4, 0.25)) == pytest.approx(np.log(4))
    assert entropy(np.array([1.0, 0.0])) == pytest.approx(0.0)
    assert entropy(np.array([0.5, 0.25, 0.25])) == pytest.approx(1.5 * np.log(2))
