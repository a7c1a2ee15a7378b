from itertools import combinations

import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import cohen_kappa_score, f1_score, precision_score, recall_score

from qt_bert.codec import decode, encode
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.stats.calibration import (
    Calibration,
    ScoreCalibration,
    apply_cutoffs,
    apply_temperature,
    choose_cut,
    find_cuts,
    fit_cutoffs,
    fit_level_temperature,
    fit_scores,
    fit_temperature,
    query_intervals,
)

GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(size=(4_000, 5)) * 2
SAMPLED = [(int(GENERATOR.choice(5, p=row)) + 1,) for row in apply_temperature(LOGITS, 1.0)]


def test_softmax_is_that_of_scaled_logits():
    result = apply_temperature([[0.0, np.log(9.0)], [1e4, 0.0]], temperature=2.0)
    np.testing.assert_allclose(result, [[0.25, 0.75], [1.0, 0.0]])


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_a_scaling_of_the_logits(factor):
    temperature = fit_temperature(LOGITS * factor, SAMPLED)
    assert temperature == pytest.approx(factor, rel=0.08)
    levels = [grade - 1 for (grade,) in SAMPLED]
    assert fit_level_temperature(LOGITS * factor, levels) == temperature


def test_a_label_that_no_logit_means_is_refused():
    with pytest.raises(ArgumentError, match="no logit has the label of pair 1"):
        fit_temperature([[0.0, 1.0]] * 2, [(1,), (5,)], model_grades=[(1, 2), (3, 4)])


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
    reached = kappa(fit_cutoffs(expected, truth, n_levels=3))
    assert reached >= kappa((1.5, 2.5))
    assert reached == pytest.approx(best, abs=0.02)


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
    with pytest.raises(RunFolderError):
        decode(Calibration, stored)
    calibration = Calibration(1.25, (1.4, 2.5, 3.5, 4.6))
    assert decode(Calibration, encode(calibration)) == calibration


# One logit: curves, cuts, grades.

SCORES = np.round(GENERATOR.normal(size=600) * 2, 2)
GRADES = np.clip(np.round(3 + SCORES / 2 + GENERATOR.normal(size=600)), 1, 5).astype(int)
SETS = tuple((grade,) for grade in range(1, 6))


def fitted(scores=SCORES, truth=GRADES - 1, grades=SETS, relevant=3, **options):
    return fit_scores(np.asarray(scores, float), np.asarray(truth), grades, relevant, **options)


def test_platts_curve_is_the_librarys():
    library = _SigmoidCalibration().fit(SCORES, GRADES >= 4)
    calibration = fitted()
    (slope,), (intercept,) = calibration.curves[2]  # grade 4 and up
    assert (-slope, -intercept) == pytest.approx((library.a_, library.b_), rel=1e-3)
    np.testing.assert_allclose(calibration.relevance(SCORES), library.predict(SCORES), atol=1e-4)


@pytest.mark.parametrize(("scale", "shift"), [(1e9, 0.0), (1e-9, 0.0), (1.0, 1e8)])
def test_probabilities_do_not_depend_on_the_scale_of_scores(scale, shift):
    scores = SCORES * scale + shift
    expected = fitted().probabilities(SCORES)
    np.testing.assert_allclose(fitted(scores).probabilities(scores), expected, atol=1e-5)


def test_the_isotonic_curve_is_the_librarys():
    library = IsotonicRegression(y_min=1e-3, y_max=1 - 1e-3, out_of_bounds="clip")
    scores = np.linspace(-9, 9, 50)
    expected = library.fit(SCORES, GRADES >= 2).predict(scores)
    calibration = fitted(method="isotonic")
    np.testing.assert_allclose(1 - calibration.probabilities(scores)[:, 0], expected)


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_levels_are_probabilities_and_relevance_is_their_sum(method):
    calibration = fitted(method=method)
    table = calibration.probabilities(np.linspace(-40, 40, 99))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert table.min() >= 0
    np.testing.assert_allclose(
        calibration.relevance([0.3])[0], calibration.probabilities([0.3])[0, 3:].sum()
    )


@pytest.mark.parametrize(("aim", "least"), [("f1", None), ("precision", 0.8), ("recall", 0.8)])
def test_a_cut_is_the_best_of_all(aim, least):
    relevant = GRADES >= 4
    cut = choose_cut(SCORES, relevant, **({aim: least} if least else {}))
    measures = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    tried = {score: measures[aim](relevant, score <= SCORES) for score in np.unique(SCORES)}
    reached = measures[aim](relevant, cut <= SCORES)
    if aim == "f1":
        assert reached == max(tried.values())
    else:
        good = [score for score, value in tried.items() if value >= least]
        best = min(good) if aim == "precision" else max(good)
        assert reached == tried[best]


def test_cuts_by_hand():
    scores, relevant = np.array([1.0, 2, 3, 4]), np.array([False, True, False, True])
    assert choose_cut(scores, relevant, precision=1.0) == 4
    assert choose_cut(scores, relevant, recall=1.0) == 2
    assert choose_cut(scores, relevant) == 2  # 4/5, against 2/3 from 4 on
    assert np.isnan(choose_cut(scores[:3], relevant[:3], precision=0.9))


@pytest.mark.parametrize("seed", [35, 241, 443])
def test_a_cutoff_parts_no_equal_scores(seed):
    """Whole scores, whose expected level a matrix product would round in several ways."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, int(rng.integers(20, 80)))
    scores = np.clip(truth + 1 + rng.integers(-3, 4, len(truth)), 1, 5).astype(float)
    curves = tuple(((1.1 + 0.1 * i,), (-1.7 * (i + 1) + rng.normal() * 0.1,)) for i in range(4))
    calibration = ScoreCalibration("platt", SETS, curves, (), 3, 0.0)
    levels = apply_cutoffs(scores, find_cuts(calibration, scores, truth)[1:])
    expected = (calibration.probabilities(scores) * np.arange(1, 6)).sum(axis=1)
    assert (levels == apply_cutoffs(expected, fit_cutoffs(expected, truth))).all()


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_a_cutoff_may_lie_beyond_the_scores_seen(method):
    """No pair is expected to have grade 5; a score little above the highest is not of grade 5 either."""
    rng = np.random.default_rng(35)
    truth = rng.choice(5, 200, p=[0.4, 0.25, 0.2, 0.13, 0.02])
    scores = truth * 0.6 + rng.normal(size=200) * 1.2
    calibration = fitted(scores, truth, method=method)
    last, highest = calibration.cutoffs[-1], scores.max()
    assert last > highest + 5
    if method == "platt":  # an isotonic curve rises no further
        table = calibration.probabilities([last])
        assert table @ np.arange(1, 6) == pytest.approx([4.5], abs=1e-3)


@pytest.mark.parametrize(
    ("scores", "truth", "options", "message"),
    [
        ([1.0, 2.0], [0, 1], {}, "no pair to fit on is relevant"),
        ([1.0, 2.0], [3, 4], {}, "every pair to fit on"),
        ([2.0, 1.0], [0, 4], {}, "do not score higher"),
        ([1.0, 2, 2.1], [0, 4, 0], {"precision": 0.9}, "no cut.*ask for"),
        ([1.0, 2.0], [0, 4], {"method": "spline"}, "choose from platt"),
    ],
)
def test_scores_that_mean_no_grade_are_refused(scores, truth, options, message):
    with pytest.raises(ArgumentError, match=message):
        fitted(scores, truth, **options)


def test_intervals_are_over_queries():
    values, queries = np.array([0.0, 0, 0, 10, 10]), np.array([0, 0, 0, 1, 2])
    (interval,) = query_intervals(
        lambda at: [values[at].mean()], queries, np.arange(5), 400, seed=1
    )
    assert interval["value"] == 4
    drawn = np.random.default_rng(1).integers(3, size=(400, 3))
    rows = [np.flatnonzero(queries == query) for query in range(3)]
    means = [values[np.concatenate([rows[query] for query in draw])].mean() for draw in drawn]
    ends = [interval["ci_low"], interval["ci_high"]]
    assert ends == pytest.approx(np.quantile(means, [0.025, 0.975]).tolist())


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_no_level_is_impossible_where_curves_meet(method):
    """Two levels with the same curve: the higher leaves the lower a thousandth of its share."""
    curve = ((1.0,), (0.0,)) if method == "platt" else ((-4.0, 4.0), (0.1, 0.9))
    same = ScoreCalibration(method, ((1,), (2,), (3,)), (curve, curve), (), 1, 0.0)
    scores = np.linspace(-6, 6, 50)
    reached = 1 / (1 + np.exp(-scores)) if method == "platt" else np.interp(scores, *curve)
    table = same.probabilities(scores)
    assert table == pytest.approx(np.stack([1 - reached, 0.001 * reached, 0.999 * reached], axis=1))
    assert same.relevance(scores) == pytest.approx(reached)


@pytest.mark.parametrize(
    "change",
    [
        {"curves": [[[1.0], [0.0]]]},
        {"curves": [[[1.0], []], [[1.0], [-1.0]]]},
        {"curves": [[[1.0, 2.0], [0.0, 1.0]], [[1.0], [-1.0]]]},
        {"cutoffs": [1.0, 0.0]},
        {"cutoffs": [0.0, 1.0, 2.0]},
        {"relevant": 3},
        {"relevant": 0},
        {"method": "spline"},
        {"grades": [[1, 2], [], [5]]},
        {"grades": [[1, 2], [3, 4], [7]]},
    ],
)
def test_a_stored_calibration_whose_parts_do_not_fit_is_refused(change):
    curves = (((1.0,), (0.0,)), ((1.0,), (-1.0,)))
    whole = ScoreCalibration("platt", ((1, 2), (3, 4), (5,)), curves, (0.0, 1.0), 1, 0.0)
    assert decode(ScoreCalibration, encode(whole)) == whole
    with pytest.raises(RunFolderError, match="level"):
        decode(ScoreCalibration, encode(whole) | change)
