from itertools import combinations

import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import cohen_kappa_score, f1_score, precision_score, recall_score

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.stats.calibration import (
    Calibration,
    apply_cutoffs,
    apply_temperature,
    choose_cut,
    fit_cutoffs,
    fit_level_temperature,
    fit_scores,
    fit_temperature,
    query_intervals,
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


# One logit: curves, cuts, grades.

SCORES = np.round(GENERATOR.normal(size=600) * 2, 2)
GRADES = np.clip(np.round(3 + SCORES / 2 + GENERATOR.normal(size=600)), 1, 5).astype(int)
SETS = [(int(grade),) for grade in GRADES]


def test_platts_curve_is_the_librarys():
    library = _SigmoidCalibration().fit(SCORES, GRADES >= 4)
    curve = fit_scores(SCORES, SETS).curves[2]  # grade 4 and up
    assert (-curve.slope, -curve.intercept) == pytest.approx((library.a_, library.b_), rel=1e-3)
    np.testing.assert_allclose(curve(SCORES), library.predict(SCORES), atol=1e-4)


def test_the_isotonic_curve_is_the_librarys():
    library = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(SCORES, GRADES >= 3)
    asked = np.linspace(-9, 9, 50)
    curve = fit_scores(SCORES, SETS, method="isotonic").curves[1]
    np.testing.assert_allclose(curve(asked), library.predict(asked))


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_levels_are_probabilities_and_relevance_is_their_sum(method):
    found = fit_scores(SCORES, SETS, method=method)
    table = found.probabilities(np.linspace(-40, 40, 99))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert table.min() >= 1e-3 - 1e-12
    np.testing.assert_allclose(found.relevance([0.3])[0], found.probabilities([0.3])[0, 3:].sum())
    assert found.sides == ((1, 2, 3), (4, 5))


@pytest.mark.parametrize(("aim", "least"), [("f1", None), ("precision", 0.8), ("recall", 0.8)])
def test_a_cut_is_the_best_of_all(aim, least):
    relevant = GRADES >= 4
    cut = choose_cut(SCORES, relevant, aim, least)
    measures = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    tried = {one: measures[aim](relevant, one <= SCORES) for one in np.unique(SCORES)}
    (reached,) = {measures[aim](relevant, cut <= SCORES)}
    if aim == "f1":
        assert reached == max(tried.values())
    else:
        good = [one for one, value in tried.items() if value >= least]
        best = min(good) if aim == "precision" else max(good)
        assert reached == tried[best]
    assert cut not in SCORES


def test_cuts_by_hand():
    scores, relevant = np.array([1.0, 2, 3, 4]), np.array([False, True, False, True])
    assert choose_cut(scores, relevant, "precision", 1.0) == 3.5
    assert choose_cut(scores, relevant, "recall", 1.0) == 1.5
    assert choose_cut(scores, relevant, "f1") == 1.5  # 4/5, against 2/3 from 3.5 on
    assert np.isnan(choose_cut(scores[:3], relevant[:3], "precision", 0.9))


def test_grades_that_no_label_meant_lie_on_the_side_of_their_neighbours():
    found = fit_scores([1.0, 2, 3, 4], [(1,), (3,), (4,), (4,)])
    assert found.grades == ((1,), (3,), (4,)) and found.sides == ((1, 2, 3), (4, 5))


def test_cutoffs_lie_halfway_between_grades_that_a_score_parts():
    scores = np.repeat([-4.0, -2.0, 1.0], 30)
    found = fit_scores(scores, [(1, 2)] * 30 + [(3, 4)] * 30 + [(5,)] * 30)
    assert found.cutoffs == pytest.approx((-3.0, -0.5))
    assert found.grades == ((1, 2), (3, 4), (5,)) and found.sides == ((1, 2, 3, 4), (5,))
    assert apply_cutoffs(scores, found.cutoffs).tolist() == [0] * 30 + [1] * 30 + [2] * 30


@pytest.mark.parametrize(
    ("scores", "sets", "options", "message"),
    [
        ([1.0, 2.0], [(1,), (2,)], {}, "no pair to fit on is relevant.*--relevant"),
        ([1.0, 2.0], [(4,), (5,)], {}, "every pair to fit on"),
        ([2.0, 1.0], [(1,), (5,)], {}, "do not score higher"),
        ([1.0, np.nan], [(1,), (5,)], {}, "some no numbers"),
        ([1.0, 2.0], [(1, 2), (2, 3)], {}, "overlap"),
        ([1.0, 2.0], [(1, 2), (3, 4)], {"relevant": 4}, "lies within the label 3-4"),
        ([1.0, 2, 2.1], [(1,), (5,), (1,)], {"aim": "precision", "least": 0.9}, "no cut.*ask for"),
    ],
)
def test_scores_that_mean_no_grade_are_refused(scores, sets, options, message):
    with pytest.raises(ArgumentError, match=message):
        fit_scores(scores, sets, **options)


def test_intervals_are_over_queries():
    values, queries = np.array([0.0, 0, 0, 10, 10]), np.array([0, 0, 0, 1, 2])
    (found,) = query_intervals([4.0], lambda rows: values[rows].mean(), queries, 400, seed=1)
    drawn = np.random.default_rng(1).integers(3, size=(400, 3))
    means = [
        values[np.concatenate([np.flatnonzero(queries == q) for q in row])].mean() for row in drawn
    ]
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(
        tuple(np.quantile(means, [0.025, 0.975]))
    )
