from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.stats.calibration import (
    Calibration,
    apply_cutoffs,
    apply_temperature,
    fit_cutoffs,
    fit_level_temperature,
    fit_temperature,
)

GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(size=(4_000, 5)) * 2
SAMPLED = [
    (int(GENERATOR.choice(5, p=row)) + 1,) for row in apply_temperature(LOGITS, temperature=1.0)
]


def test_softmax_is_that_of_scaled_logits():
    found = apply_temperature([[0.0, np.log(9.0)], [1e4, 0.0]], temperature=2.0)
    np.testing.assert_allclose(found, [[0.25, 0.75], [1.0, 0.0]])


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_a_scaling_of_the_logits(factor):
    assert fit_temperature(LOGITS * factor, SAMPLED) == pytest.approx(factor, rel=0.08)


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ([[0.0] * 4], [(1,)], r"shape \(1, 4\)"),
        ([[0.0] * 5], [(1,), (2,)], "2 labels"),
        ([[np.nan] * 5], [(1,)], "not numbers"),
        (np.empty((0, 5)), [], "no graded pair"),
        ([[-np.inf] * 5], [(1,)], "not numbers"),
    ],
)
def test_logits_that_do_not_fit_are_refused(logits, labels, message):
    with pytest.raises(ArgumentError, match=message):
        fit_temperature(logits, labels)


def test_a_label_that_no_logit_means_is_refused():
    with pytest.raises(ArgumentError, match="no logit stands for the label of pair 1"):
        fit_temperature([[0.0, 1.0]] * 2, [(1,), (5,)], model_grades=[(1, 2), (3, 4)])
    with pytest.raises(ArgumentError, match="no logit stands for the label of pair 0"):
        fit_level_temperature([[0.0] * 7], [7])


def test_cutoffs_find_a_shifted_scale():
    truth = np.repeat(np.arange(5), 40)
    expected = 2.0 + 0.3 * truth + np.tile(np.linspace(-0.1, 0.1, 40), 5)
    cutoffs = fit_cutoffs(expected, truth)
    assert list(cutoffs) == sorted(cutoffs)
    assert apply_cutoffs(expected, cutoffs).tolist() == truth.tolist()


def test_three_level_cutoffs_are_the_best_of_all():
    generator = np.random.default_rng(2)
    truth = generator.integers(0, 3, 30)
    expected = 1 + 0.6 * truth + generator.normal(size=30) * 0.5

    def kappa(cutoffs):
        levels = apply_cutoffs(expected, cutoffs)
        return float(cohen_kappa_score(truth, levels, weights="quadratic"))

    values = np.sort(expected)
    middles = (values[1:] + values[:-1]) / 2
    best = max(kappa(pair) for pair in combinations(middles.tolist(), 2))
    found = kappa(fit_cutoffs(expected, truth, n_levels=3))
    assert found >= kappa((1.5, 2.5))
    assert found == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize(
    ("expected", "truth"), [([], []), ([1.0, 2.0], [0]), ([np.nan], [0]), ([1.0], [5])]
)
def test_cutoffs_of_data_that_do_not_fit_are_refused(expected, truth):
    with pytest.raises(ArgumentError):
        fit_cutoffs(expected, truth)


def test_a_calibration_comes_back_from_json():
    calibration = Calibration(1.25, (1.4, 2.5, 3.5, 4.6))
    assert Calibration.from_json(calibration.to_json()) == calibration


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"temperature": 1.0},
        {"temperature": "warm", "cutoffs": [1.5]},
        {"temperature": 0.0, "cutoffs": [1.5]},
        {"temperature": 1.0, "cutoffs": [2.5, 1.5]},
        {"temperature": 1.0, "cutoffs": None},
        {"temperature": float("nan"), "cutoffs": [1.5]},
    ],
)
def test_a_stored_calibration_that_cannot_be_used_is_refused(stored):
    with pytest.raises(CheckpointError, match="run qt-bert calibrate again"):
        Calibration.from_json(stored)
