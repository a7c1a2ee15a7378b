from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from qt_bert.baselines import Labelled, OrdinalRegression, fit_best, ordinal
from qt_bert.baselines.ordinal import LabelSetLoss
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray

COEFFICIENTS = np.array([1.5, -0.5])
CUTS = np.array([-2.0, -0.5, 0.5, 2.0])
COARSE = {1: (1, 2), 2: (1, 2), 3: (3,), 4: (4, 5), 5: (4, 5)}


def simulated(n: int, seed: int = 0, *, coarse: float = 0.0) -> Labelled:
    """Grades drawn from a proportional-odds model; a share of the labels said coarsely."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, 2))
    latent = features @ COEFFICIENTS + generator.logistic(size=n)
    grades = (np.searchsorted(CUTS, latent) + 1).tolist()
    said_coarsely = generator.random(n) < coarse
    sets = [
        COARSE[g] if blurred else (g,) for g, blurred in zip(grades, said_coarsely, strict=True)
    ]
    return Labelled(features, sets)


def raw(model: OrdinalRegression) -> tuple[FloatArray, FloatArray]:
    """Coefficients and thresholds for features as they were, not standardised."""
    slopes = model.coefficients / model.scale
    return slopes, model.thresholds + model.mean @ slopes


def constant(thresholds: FloatArray) -> OrdinalRegression:
    return OrdinalRegression(np.zeros(1), np.ones(1), np.ones(1), thresholds, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_that_of_finite_differences(seed: int) -> None:
    generator = np.random.default_rng(seed)
    allowed = generator.random((30, 5)) < 0.4
    allowed[np.arange(30), generator.integers(0, 5, 30)] = True
    weights = generator.random(30)
    loss = LabelSetLoss(generator.normal(size=(30, 3)), allowed, weights / weights.sum(), 0.1)
    at = generator.normal(size=7)
    assert check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], at) < 1e-6


def test_the_loss_is_minus_log_of_the_sets_probability() -> None:
    allowed = np.array([[True, True, False, False, False], [False, False, False, False, True]])
    loss = LabelSetLoss(np.array([[1.0], [0.0]]), allowed, np.array([0.25, 0.75]), 0.2)
    at = np.array([2.0, -1.0, np.log(2.0), np.log(0.5), np.log(1.5)])  # cuts -1, 1, 1.5, 3
    by_hand = -0.25 * np.log(expit(1.0 - 2.0)) - 0.75 * np.log(1 - expit(3.0)) + 0.1 * 2.0**2
    assert loss(at)[0] == pytest.approx(by_hand)


def test_probabilities_are_differences_of_the_cumulative_ones() -> None:
    model = constant(logit(np.array([0.1, 0.3, 0.6, 0.9])))
    assert model.predict_proba(np.array([[0.0]]))[0] == pytest.approx([0.1, 0.2, 0.3, 0.3, 0.1])


def test_a_higher_score_moves_to_higher_grades_and_extremes_stay_numbers() -> None:
    table = constant(np.array([-2.0, -1.0, 1.0, 2.0])).predict_proba(
        np.array([[-1e4], [0.0], [1e4]])
    )
    assert table.argmax(axis=1).tolist() == [0, 2, 4]
    assert table.sum(axis=1) == pytest.approx(1)


def test_two_grades_are_scikit_learns_logistic_regression() -> None:
    data = simulated(300)
    positive = np.array([grades[0] > 3 for grades in data.grade_sets])
    sets = [(2,) if one else (1,) for one in positive]
    model = OrdinalRegression.fit(Labelled(data.features, sets), l2=0.05, n_grades=2)
    standard = (data.features - model.mean) / model.scale
    reference = LogisticRegression(C=1 / (300 * 0.05), tol=1e-8).fit(standard, positive)
    assert model.coefficients == pytest.approx(reference.coef_[0], abs=1e-4)
    assert model.thresholds == pytest.approx(-reference.intercept_, abs=1e-4)


@pytest.mark.parametrize("coarse", [0.0, 0.7])
def test_exact_and_coarse_labels_recover_what_made_them(coarse: float) -> None:
    slopes, cuts = raw(OrdinalRegression.fit(simulated(8_000, coarse=coarse), l2=0.0))
    assert slopes == pytest.approx(COEFFICIENTS, abs=0.1)
    assert cuts == pytest.approx(CUTS, abs=0.15)


def test_a_weight_counts_as_repeated_pairs() -> None:
    data = simulated(200)
    times = np.where(np.arange(200) < 50, 3, 1)
    repeated = np.repeat(np.arange(200), times)
    many = Labelled(data.features[repeated], [data.grade_sets[i] for i in repeated.tolist()])
    weighted = Labelled(data.features, data.grade_sets, times.astype(np.float64))
    plain, by_weight = (raw(OrdinalRegression.fit(one, l2=0.0)) for one in (many, weighted))
    for one, other in zip(plain, by_weight, strict=True):
        assert one == pytest.approx(other, abs=1e-3)


def test_a_penalty_shrinks_the_coefficients() -> None:
    data = simulated(400)
    sizes = [np.abs(OrdinalRegression.fit(data, l2=l2).coefficients).max() for l2 in (0, 0.1, 10)]
    assert sizes[0] > sizes[1] > sizes[2] > 0


def test_a_constant_feature_gets_no_say() -> None:
    data = simulated(200)
    wide = np.column_stack([data.features, np.full(200, 0.1)])
    model = OrdinalRegression.fit(Labelled(wide, data.grade_sets), l2=0.01)
    assert model.coefficients[2] == pytest.approx(0, abs=1e-9)
    assert np.isfinite(model.predict_proba(wide)).all()


def test_json_restores_the_model_exactly() -> None:
    data = simulated(100)
    model = OrdinalRegression.fit(data, l2=0.01)
    restored = OrdinalRegression.from_json(json.loads(json.dumps(model.to_json())))
    assert (restored.predict_proba(data.features) == model.predict_proba(data.features)).all()
    assert restored.l2 == 0.01


@pytest.mark.parametrize(
    "change",
    [
        {"l2": None},
        {"mean": [0.0, 1.0]},
        {"thresholds": [1.0, 0.0, 2.0, 3.0]},
        {"thresholds": []},
        {"scale": "wide"},
    ],
)
def test_json_of_no_model_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="not an ordinal regression"):
        OrdinalRegression.from_json(constant(CUTS).to_json() | change)


def test_json_without_a_part_is_refused() -> None:
    with pytest.raises(ArgumentError, match="coefficients"):
        OrdinalRegression.from_json({"mean": [0.0], "scale": [1.0]})


FIVE = [(1,), (2,), (3,), (4,), (5,)]
ONE_COLUMN = np.arange(5.0)[:, None]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Labelled(np.arange(5.0), FIVE), "shape"),
        (Labelled(np.empty((0, 3)), []), "shape"),
        (Labelled(np.array([[0.0], [np.nan], [1], [2], [3]]), FIVE), "feature of pair 1"),
        (Labelled(ONE_COLUMN, FIVE[:4]), "4 labels for 5 pairs"),
        (Labelled(ONE_COLUMN, [*FIVE[:4], (6,)]), "no set of grades 1-5"),
        (Labelled(ONE_COLUMN, [*FIVE[:4], ()]), "no set of grades 1-5"),
        (Labelled(ONE_COLUMN, [*FIVE[:4], (4,)]), "grade 5"),
        (Labelled(ONE_COLUMN, [(1, 2), (1, 2), *FIVE[2:]]), "tells grade 1 from grade 2"),
        (Labelled(ONE_COLUMN, FIVE, np.array([1.0, 1, 1, 1, 0])), "weights must be 5"),
        (Labelled(ONE_COLUMN, FIVE, np.ones(4)), "weights must be 5"),
    ],
)
def test_what_cannot_be_fitted_is_refused(data: Labelled, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        OrdinalRegression.fit(data, l2=0.01)


def test_another_number_of_features_is_refused() -> None:
    with pytest.raises(ArgumentError, match="2 features; the model has 1"):
        constant(CUTS).predict_proba(np.zeros((3, 2)))


def test_a_fit_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordinal, "MOST_STEPS", 1)
    with pytest.raises(ArgumentError, match="did not converge"):
        OrdinalRegression.fit(simulated(300), l2=0.0)


def test_the_penalty_is_chosen_by_qwk_on_the_dev_pairs() -> None:
    model, reached = fit_best(simulated(300), simulated(300, seed=1), grid=(100.0, 0.01))
    assert model.l2 == 0.01
    assert reached[100.0] == 0  # all pairs in one grade agree as chance does
    assert reached[0.01] > 0.4


def test_dev_labels_without_levels_are_refused() -> None:
    train = simulated(300)
    dev = Labelled(train.features[:2], [(1, 2), (2, 3)])
    with pytest.raises(ArgumentError, match="QWK is undefined"):
        fit_best(train, dev, grid=(0.01,))
