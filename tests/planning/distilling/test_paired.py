"""Differences over seeds and queries together."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.planning.arms import _over_seeds, outcome_of, paired_differences
from qt_bert.stats.judgements import judge_grades
from qt_bert.stats.metrics import METRICS

QUERIES = [f"q{n // 4}" for n in range(80)]
LABELS = [(1 + n % 5,) for n in range(80)]


def student(noise: float, seed: int):
    """Grades with noise: the louder, the worse."""
    drawn = np.random.default_rng(seed).normal(size=(80, 5)) * noise
    logits = np.eye(5)[[label[0] - 1 for label in LABELS]] * 3 + drawn
    odds = np.exp(logits)
    return judge_grades(odds / odds.sum(1, keepdims=True), LABELS, QUERIES)


def arm(noise: float, seeds: range, base: int = 0):
    return {seed: student(noise, base + seed) for seed in seeds}


def test_the_difference_is_the_mean_over_the_seeds_both_have():
    ours, theirs = arm(1.0, range(5)), arm(3.0, range(3), base=50)
    found = paired_differences(ours, theirs, name="even", on="dev", resamples=200)
    assert [one.metric for one in found] == ["spearman", "qwk"]
    for one in found:
        metric = METRICS[one.metric]
        by_hand = [metric.value(ours[seed]) - metric.value(theirs[seed]) for seed in range(3)]
        assert one.difference == pytest.approx(np.mean(by_hand))
        assert one.plan_value - one.rival_value == pytest.approx(one.difference)
        assert one.seeds == 3 and one.ci_low < one.difference < one.ci_high
        assert one.outcome == "better"


def test_the_same_students_show_no_difference():
    ours = arm(1.0, range(3))
    (spearman, qwk) = paired_differences(ours, ours, name="even", on="dev", resamples=100)
    assert spearman.difference == 0 and spearman.outcome == "undecided"
    assert (qwk.ci_low, qwk.ci_high) == (0, 0)


def test_seeds_that_differ_widen_the_interval():
    steady = {seed: student(1.0, 0) for seed in range(5)}
    varied = {seed: student(0.5 + seed, 0) for seed in range(5)}
    rival = {seed: student(2.0, 9) for seed in range(5)}
    widths = []
    for ours in (steady, varied):
        one = paired_differences(ours, rival, name="even", on="dev", resamples=400)[0]
        widths.append(one.ci_high - one.ci_low)
    assert widths[1] > 1.3 * widths[0]


@pytest.mark.parametrize("values", [(0.0, 2.0), (0.0, 1.0, 5.0)])
def test_means_over_drawn_seeds_vary_as_a_mean_of_so_many_does(values):
    """The sample variance over n: 2/2 and 7/3; a plain resample has 1/2 and 2/3 of that."""
    same = np.repeat(np.array(values)[:, None], 20_000, axis=1)
    found = _over_seeds(same, 0)
    assert found.mean() == pytest.approx(np.mean(values), abs=0.05)
    assert found.var() == pytest.approx(np.var(values, ddof=1) / len(values), rel=0.05)


def test_one_seed_varies_by_its_queries_alone():
    assert _over_seeds(np.array([[1.0, 2.0, 3.0]]), 0).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ((0.01, 0.2), "better"),
        ((-0.2, -0.01), "worse"),
        ((-0.1, 0.1), "undecided"),
        ((0.0, 0.1), "undecided"),
        ((None, None), "undecided"),
    ],
)
def test_outcomes(ends, outcome):
    assert outcome_of(*ends) == outcome
