from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtrit

from qt_bert.errors import ArgumentError
from qt_bert.stats.comparison import (
    changes_by_query,
    compare,
    differ_most,
    graded_score,
    metric_estimate,
    queries_without,
    seeds_reach,
    side_by_side,
    swap_p_values,
    unseen_reach,
)
from qt_bert.stats.judgements import Judgements, judge_grades, judge_levels, judge_scores, known
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
    for metric in compare(good, good, resamples=50, draws=50).metrics.values():
        assert (metric.difference, metric.ci_low, metric.ci_high, metric.p) == (0, 0, 0, 1)


def test_a_swap_exchanges_the_predictions_of_whole_queries(good, poor):
    swapped = np.random.default_rng(3).integers(2, size=good.n_queries)
    other = swapped[good.query_index] == 1
    predicted = np.where(other, known(poor.predicted), known(good.predicted))
    mixed = good.with_predicted(predicted)
    weights = np.concatenate([1 - swapped, swapped]).astype(np.float64)[None]
    value = METRICS["qwk"].estimator(side_by_side(good, poor))(weights)
    assert value[0] == pytest.approx(METRICS["qwk"].value(mixed))


def test_p_is_the_share_of_swaps_that_differ_as_much():
    labels, queries = [(5,), (1,), (4,)], ["甲", "乙", "丙"]
    wrong, right = (judge_grades(np.eye(5)[at], labels, queries) for at in ([0, 4, 0], [4, 0, 3]))
    comparison = compare(wrong, right, metrics=["accuracy"], resamples=0, draws=4_000)
    assert comparison.metrics["accuracy"].p == pytest.approx(2 / 8, abs=0.03)


def test_many_models_are_tested_with_the_same_swaps(good, poor):
    metrics = [METRICS["accuracy"], METRICS["spearman"]]
    others = [poor, model(1.1, 5), good]
    p_values = swap_p_values(good, others, metrics, draws=200, seed=4)
    assert p_values.shape == (3, 2)
    for other, row in zip(others, p_values, strict=True):
        alone = compare(good, other, metrics=["accuracy", "spearman"], draws=200, seed=4)
        assert row.tolist() == [metric.p for metric in alone.metrics.values()]
    assert p_values[2].tolist() == [1, 1]


def test_models_on_other_scales_are_compared_by_order(good):
    scores = judge_scores(1e6 * good.ranking_score, LABELS, QUERIES)
    metrics = compare(good, scores, resamples=50, draws=50).metrics
    assert (metrics["spearman"].difference, metrics["spearman"].p) == (pytest.approx(0), 1)
    assert metrics["spearman"].ci_high == pytest.approx(0)  # one order: the same outputs
    assert (metrics["spearman"].n_eligible, metrics["pnr"].n_eligible) == (None, 40)
    assert "one-logit" in (metrics["accuracy"].reason or "")


def test_classes_of_other_levels_are_not_compared(good):
    table = known(good.level_probabilities)
    coarse = np.stack([table[:, :2].sum(axis=1), table[:, 2:].sum(axis=1)], axis=1)
    other = judge_grades(coarse, LABELS, QUERIES, model_grades=[(1, 2), (3, 4, 5)])
    metrics = compare(good, other, resamples=20, draws=20).metrics
    assert metrics["qwk"].value_a is None and "different levels" in (metrics["qwk"].reason or "")
    assert metrics["spearman"].value_b is not None


def test_models_of_other_levels_differ_in_grades():
    """Both are sure: of 5, then of 2 or of 1-2. By their levels 5 and 3 the first would differ most."""
    labels, queries = [(5,), (2,)], ["猫", "猫"]
    five = judge_grades(np.eye(5)[[4, 1]], labels, queries)
    three = judge_grades(np.eye(3)[[2, 0]], labels, queries, model_grades=[(1, 2), (3, 4), (5,)])
    assert graded_score([five]).tolist() == [5, 2] and graded_score([three]).tolist() == [5, 1.5]
    assert differ_most([five], [three], 1).tolist() == [1]
    assert graded_score([judge_levels([[0.25, 0.75]], [1], ["猫"])]).tolist() == [0.75]


@pytest.mark.parametrize("name", ["accuracy", "qwk", "spearman", "pairwise_accuracy"])
def test_an_estimate_leaves_out_each_query(poor, name):
    found, metric = metric_estimate(poor, name), METRICS[name]
    left = [metric.value(poor.subset(poor.query_index != query)) for query in range(poor.n_queries)]
    assert found.value == pytest.approx(metric.value(poor))
    np.testing.assert_allclose(found.leave_one_out, left)
    scores = judge_scores(poor.ranking_score, LABELS, QUERIES)
    assert np.isnan(metric_estimate(scores, name).value) == (name in ("accuracy", "qwk"))


def test_scores_that_equal_the_labels_have_a_correlation_of_one():
    """Rounding put it beyond 1 for 18 pairs, and for the five that a query of six leaves."""
    for n in (6, 18):
        labels = [(row % 5 + 1,) for row in range(n)]
        scores = [float(grade) for (grade,) in labels]
        found = metric_estimate(judge_scores(scores, labels, QUERIES[: 5 * n : 5]), "spearman")
        assert found.value == pytest.approx(1) and max(found.leave_one_out) == pytest.approx(1)


def test_an_undefined_metric_has_a_reason():
    judged = judge_grades(np.eye(5)[[4, 0]], [(5,), (1,)], ["猫", "猫"])
    metric = compare(judged, judged, resamples=20, draws=20).metrics["pnr"]
    assert (metric.value_a, metric.difference, metric.p) == (None, None, None)
    assert metric.reason == METRICS["pnr"].undefined.en


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


RARE = 1 - 0.025 ** (1 / 100)
"""The share of queries of a kind that none of a hundred shows."""


def hundred(wrong: int, seed: int = 0) -> Judgements:
    """A hundred queries of two titles; in the first `wrong` ones the better title comes second."""
    scores = np.random.default_rng(seed).uniform(0, 0.1, 200)
    scores[::2] += 1
    scores[: 2 * wrong] *= -1
    return judge_scores(scores, [(5,), (1,)] * 100, [f"查询{row // 2}" for row in range(200)])


def test_where_no_query_differs_others_may():
    a, b = hundred(0), hundred(0, seed=1)
    metrics = compare(a, b, resamples=50, draws=50).metrics
    first = metrics["mrr_at_10"]
    assert (first.difference, first.p) == (0, 1)
    assert (-first.ci_low, first.ci_high) == pytest.approx((RARE, RARE))
    assert (queries_without(RARE), queries_without(0.02)) == (100, 183)
    # No order of two titles changes it; another scale is the same order.
    assert (metrics["recall_at_5"].ci_low, metrics["recall_at_5"].ci_high) == (0, 0)
    scaled = replace(a, ranking_score=np.exp(a.ranking_score))
    same = compare(a, scaled, metrics=["mrr_at_10"], resamples=50, draws=50).metrics["mrr_at_10"]
    assert (same.ci_low, same.ci_high) == (0, 0)


@pytest.mark.parametrize(("wrong", "seen"), [(1, 1), (3, 3), (20, 20), (45, 40), (90, 10)])
def test_unseen_changes_are_as_large_as_those_seen(wrong, seen):
    """MRR changes by −½ in each; where most change, those that do not are the rare ones."""
    a, b, metric = hundred(0), hundred(wrong), METRICS["mrr_at_10"]
    both = side_by_side(a, b)
    assert changes_by_query(both, metric) == pytest.approx([-0.005] * wrong + [0] * (100 - wrong))
    reach = 0.5 ** (seen / (seen + 1)) * np.sqrt(1 - seen / 40) * RARE
    assert unseen_reach(a, [both], metric, 100) == pytest.approx(reach)
    found = compare(a, b, metrics=[metric], draws=0).metrics["mrr_at_10"]
    assert found.ci_low <= found.difference - reach <= found.difference + reach <= found.ci_high


@pytest.mark.parametrize("name", ["accuracy", "qwk", "ndcg_at_5", "pnr", "ece"])
def test_a_query_gives_half_of_what_its_swap_takes(good, poor, name):
    both = side_by_side(good, poor)
    estimator = METRICS[name].estimator(both)
    swaps = np.concatenate([np.zeros((1, good.n_queries)), np.eye(good.n_queries)])
    of_a, of_b = np.hstack([1 - swaps, swaps]), np.hstack([swaps, 1 - swaps])
    difference, *swapped = estimator(of_b) - estimator(of_a)
    expected = (difference - np.array(swapped)) / 2
    assert changes_by_query(both, METRICS[name]) == pytest.approx(expected)


def titles(n: int, share: float, seed: int) -> tuple[Judgements, Judgements]:
    """n queries of five titles by two models; the second has random scores for a `share` of the queries."""
    rng = np.random.default_rng(seed)
    labels, queries = [(row % 5 + 1,) for row in range(5 * n)], np.repeat(np.arange(n), 5)
    first = rng.normal(np.tile(np.arange(5.0), n), 1)
    second = np.where(rng.random(n)[queries] < share, rng.normal(2, 2, 5 * n), first)
    second += rng.normal(0, 1e-3, 5 * n)  # no pair has the same score
    return tuple(judge_scores(scores, labels, queries.tolist()) for scores in (first, second))


@pytest.mark.parametrize(
    ("n", "share", "runs"),
    [(40, 0.02, 60), (60, 0.05, 60)]
    + [
        pytest.param(n, share, 1000, marks=pytest.mark.nightly)
        for n in (40, 60, 160)
        for share in (0.02, 0.05, 0.1, 0.3)
    ],
)
def test_intervals_cover_rare_differences(n, share, runs):
    """The bootstrap alone covers some of these in half of the samples."""
    names = ("mrr_at_10", "ndcg_at_5", "pairwise_accuracy")
    whole = compare(*titles(4_000, 1.0, 0), metrics=names, resamples=1, draws=0).metrics
    covered = dict.fromkeys(names, 0)
    for run in range(runs):
        found = compare(*titles(n, share, run + 1), metrics=names, resamples=400, draws=0).metrics
        for name, one in found.items():
            covered[name] += one.ci_low <= share * whole[name].difference <= one.ci_high
    least = 0.93 * runs - 3 * np.sqrt(0.93 * 0.07 * runs)
    assert min(covered.values()) >= least, covered


def test_seeds_widen_an_interval_by_welch():
    # s²/k is 1/3 and 4/3: Welch's freedom is (5/3)² / (1/9/2 + 16/9/2) = 2.94.
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])
    assert seeds_reach(a, b) == pytest.approx(stdtrit(50 / 17, 0.975) * np.sqrt(5 / 3))
    assert seeds_reach(a[:1], b) == pytest.approx(stdtrit(2, 0.975) * np.sqrt(4 / 3))
    assert seeds_reach(a[:1], b[:1]) == 0


def test_several_seeds_are_compared_by_their_means(good, poor):
    side = [good, model(1.0, 5), model(1.0, 6)]
    accuracies = [METRICS["accuracy"].value(judged) for judged in side]
    several = compare(side, poor, resamples=100, metrics=["accuracy"]).metrics["accuracy"]
    single = compare(good, poor, resamples=100, draws=9, metrics=["accuracy"]).metrics["accuracy"]
    assert several.value_a == pytest.approx(np.mean(accuracies)) and several.p is None
    apart = np.abs(np.mean([judged.expected for judged in side], axis=0) - poor.expected)
    assert (np.diff(apart[differ_most(side, [poor], N)]) <= 0).all()
    assert several.ci_high - several.ci_low > single.ci_high - single.ci_low and single.p
    same = compare([good, good], [poor, poor], resamples=100, metrics=["accuracy"])
    assert same.metrics["accuracy"].ci_low == pytest.approx(single.ci_low)
    with pytest.raises(ArgumentError, match="other levels"):
        compare([good, judge_scores(np.arange(N), LABELS, QUERIES)], poor)


def test_intervals_over_seeds_and_queries_cover():
    """True accuracies .70 and .70; a seed moves a model by .03, a query its pairs by .1."""
    rng, inside, narrow, runs = np.random.default_rng(0), 0, 0, 200
    queries = [str(n // 2) for n in range(160)]

    def trained(hard: np.ndarray) -> Judgements:
        right = rng.random(160) < 0.7 + rng.normal(0, 0.03) + hard
        return judge_levels(np.eye(2)[(~right).astype(int)], [0] * 160, queries)

    for _ in range(runs):
        hard = np.repeat(rng.normal(0, 0.1, 80), 2)
        sides = [[trained(hard) for _ in range(3)] for _ in range(2)]
        metric = compare(*sides, metrics=["accuracy"], resamples=200).metrics["accuracy"]
        inside += metric.ci_low <= 0 <= metric.ci_high
        values = [[METRICS["accuracy"].value(model) for model in side] for side in sides]
        reach = seeds_reach(*map(np.array, values))
        half = np.sqrt(max((metric.ci_high - metric.difference) ** 2 - reach**2, 0))
        narrow += abs(metric.difference) <= half
    assert inside / runs >= 0.95 > narrow / runs
