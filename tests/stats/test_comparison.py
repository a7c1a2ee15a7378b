from __future__ import annotations

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.stats.comparison import compare, side_by_side, swap_p_values
from qt_bert.stats.judgements import Judgements, judge_grades, judge_scores, known
from qt_bert.stats.metrics import METRICS

N = 200
GRADES = np.random.default_rng(0).integers(1, 6, N)
LABELS = [(int(grade),) for grade in GRADES]
QUERIES = [f"查询{row // 5}" for row in range(N)]


def model(noise: float, seed: int) -> Judgements:
    """A model whose logits are the label's closeness plus noise."""
    generator = np.random.default_rng(seed)
    logits = -np.abs(np.arange(1, 6) - GRADES[:, None]) + noise * generator.normal(size=(N, 5))
    powers = np.exp(logits)
    return judge_grades(powers / powers.sum(axis=1, keepdims=True), LABELS, QUERIES)


@pytest.fixture(scope="module")
def good() -> Judgements:
    return model(1.0, 1)


@pytest.fixture(scope="module")
def poor() -> Judgements:
    return model(3.0, 2)


def test_a_model_does_not_differ_from_itself(good):
    for one in compare(good, good, resamples=50, draws=50).metrics.values():
        assert (one.difference, one.ci_low, one.ci_high, one.p) == (0, 0, 0, 1)


def test_a_swap_exchanges_the_predictions_of_whole_queries(good, poor):
    swapped = np.random.default_rng(3).integers(2, size=good.n_queries)
    other = swapped[good.query_index] == 1
    predicted = np.where(other, known(poor.predicted), known(good.predicted))
    mixed = good.with_predicted(predicted)
    weights = np.concatenate([1 - swapped, swapped]).astype(np.float64)[None]
    found = METRICS["qwk"].estimator(side_by_side(good, poor))(weights)
    assert found[0] == pytest.approx(METRICS["qwk"].value(mixed))


def test_p_is_the_share_of_swaps_that_differ_as_much():
    labels, queries = [(5,), (1,), (4,)], ["甲", "乙", "丙"]
    right = np.eye(5)[[4, 0, 3]]
    wrong = np.eye(5)[[0, 4, 0]]
    found = compare(
        judge_grades(wrong, labels, queries),
        judge_grades(right, labels, queries),
        metrics=["accuracy"],
        resamples=0,
        draws=4_000,
    )
    assert found.metrics["accuracy"].p == pytest.approx(2 / 8, abs=0.03)


def test_many_models_are_tested_with_the_same_swaps(good, poor):
    metrics = [METRICS["accuracy"], METRICS["spearman"]]
    others = [poor, model(1.1, 5), good]
    found = swap_p_values(good, others, metrics, draws=200, seed=4)
    assert found.shape == (3, 2)
    for other, row in zip(others, found, strict=True):
        alone = compare(good, other, metrics=["accuracy", "spearman"], draws=200, seed=4)
        assert row.tolist() == [one.p for one in alone.metrics.values()]
    assert found[2].tolist() == [1, 1]


def test_models_on_other_scales_are_compared_by_order(good):
    scores = judge_scores(1e6 * good.ranking_score, LABELS, QUERIES)
    found = compare(good, scores, resamples=50, draws=50)
    assert found.metrics["spearman"].difference == pytest.approx(0)
    assert found.metrics["spearman"].p == 1
    assert "one-logit" in (found.metrics["accuracy"].reason or "")


def test_classes_of_other_levels_are_not_compared(good):
    table = known(good.level_probabilities)
    coarse = np.stack([table[:, :2].sum(axis=1), table[:, 2:].sum(axis=1)], axis=1)
    other = judge_grades(coarse, LABELS, QUERIES, model_grades=[(1, 2), (3, 4, 5)])
    found = compare(good, other, resamples=20, draws=20)
    assert found.metrics["qwk"].value_a is None
    assert "different levels" in (found.metrics["qwk"].reason or "")
    assert found.metrics["spearman"].value_b is not None


def test_an_undefined_metric_has_a_reason():
    judged = judge_grades(np.eye(5)[[4, 0]], [(5,), (1,)], ["猫", "猫"])
    one = compare(judged, judged, resamples=20, draws=20).metrics["pnr"]
    assert (one.value_a, one.difference, one.p) == (None, None, None)
    assert one.reason == METRICS["pnr"].undefined


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (slice(0, 10), {}, "200 and 10 pairs"),
        (slice(None, None, -1), {}, "pair 0 has another query or label"),
        (slice(None), {"metrics": ["f2"]}, "no metric is called 'f2'"),
        (slice(None), {"draws": -1, "resamples": 0}, "draws is -1"),
        (slice(None), {"resamples": -1}, "resamples is -1"),
    ],
)
def test_what_cannot_be_compared_is_refused(good, rows, options, message):
    with pytest.raises(ArgumentError, match=message):
        compare(good, good.subset(np.arange(N)[rows]), **options)
