"""Krippendorff's α against his own example, κ against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from qt_bert.scoring.agreement import OF_TWO, alpha
from qt_bert.stats.judgements import judge_levels

# Krippendorff (2011), the reliability data of section C: four observers, twelve units.
OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3),
    (0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0),
)


def test_alpha_of_krippendorffs_example_and_of_one_grade_alone():
    result = alpha(np.array(OBSERVERS).T - 1, np.arange(12), 5, resamples=50)
    assert result["value"] == pytest.approx(0.815, abs=5e-4)
    assert result["ci_low"] < result["value"] < result["ci_high"]
    result = alpha(np.full((2, 2), 3), np.arange(2), 5, resamples=10)
    assert result["value"] is None and result["reason"]


def test_titles_of_a_query_are_resampled_together():
    levels = np.array([[0, 0], [1, 0], [2, 2], [0, 1]] * 5)
    apart = alpha(levels, np.arange(20), 3, resamples=200)
    together = alpha(levels, np.repeat(np.arange(5), 4), 3, resamples=200)
    assert apart["value"] == together["value"] and apart["ci_high"] - apart["ci_low"] > 0.1
    # Every query is a copy of the others.
    assert together["ci_high"] - together["ci_low"] < 1e-9


def test_kappas_against_scikit_learn():
    generator = np.random.default_rng(0)
    a = generator.integers(0, 5, 200)
    b = np.clip(a + generator.integers(-1, 3, 200), 0, 4)
    judged = judge_levels(np.eye(5)[b], a, list(map(str, range(200))))
    values = {name: metric.value(judged) for name, metric in OF_TWO.items()}
    quadratic = cohen_kappa_score(a, b, weights="quadratic")
    kappas = {"kappa": cohen_kappa_score(a, b), "quadratic_kappa": quadratic}
    means = {"within_one": (abs(a - b) <= 1).mean(), "bias": (b - a).mean()}
    assert values == pytest.approx(kappas | means)
