from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as reference

from qt_bert.stats.comparison import compare
from qt_bert.stats.estimate import NO_INTERVAL, percentile_interval
from qt_bert.stats.evaluation import (
    MetricValue,
    PairCounts,
    confusion,
    errors_in_slices,
    evaluate,
    furthest_off,
    per_grade,
    reliability,
)
from qt_bert.stats.judgements import judge_grades, judge_scores
from qt_bert.stats.metrics import METRICS, NO_ORDER, REASONS, in_both_languages
from qt_bert.text import Text


def reason(metric: MetricValue) -> Text:
    return in_both_languages(metric.reason)


def test_confusion_has_labels_in_rows(hand):
    cells = np.zeros((5, 5), int)
    cells[[0, 1, 2, 3, 4], [2, 1, 0, 3, 4]] = 1, 1, 1, 2, 1
    assert confusion(hand).tolist() == cells.tolist()


def test_figures_of_each_grade_are_those_of_sklearn(random_judgements):
    judged = random_judgements(1)
    rows = per_grade(judged)
    expected = reference.precision_recall_fscore_support(judged.truth, judged.predicted)
    for name, column in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        assert [getattr(row, name) for row in rows] == pytest.approx(list(column))


def test_the_pairs_furthest_off_come_first(hand):
    assert furthest_off(hand, 2).tolist() == [2, 1]


def test_a_slice_beside_the_rest(random_judgements):
    judged = random_judgements(2, n=400, n_queries=80)
    inside = judged.query_index % 2 == 0
    slices = {"even": inside, "few": judged.query_index < 3}  # three queries are too few
    (even,), wrong = errors_in_slices(judged, slices, resamples=500), ~judged.correct
    assert even.slice == "even" and even.inside == pytest.approx(wrong[inside].mean())
    assert even.difference == pytest.approx(wrong[inside].mean() - wrong[~inside].mean())
    assert even.ci_low < even.difference < even.ci_high and even.q == even.p > 0.05


def test_a_querys_weight_counts_in_value_interval_slices_and_test(random_judgements):
    judged = random_judgements(3, n=200, n_queries=60)
    whole = np.random.default_rng(0).integers(1, 4, judged.n_queries)
    rows = np.concatenate(
        [np.tile(np.flatnonzero(judged.query_index == q), k) for q, k in enumerate(whole)]
    )
    weighted, repeated = replace(judged, query_weights=whole + 0.0), judged.subset(rows)
    names = [name for name in METRICS if not METRICS[name].ranking]
    values = evaluate(weighted, resamples=50).metrics
    for name in names:  # over pairs a weight is a number of copies
        assert values[name].value == pytest.approx(METRICS[name].value(repeated), abs=1e-12)
        assert values[name].ci_low == pytest.approx(
            evaluate(repeated, resamples=50).metrics[name].ci_low
        )
    for scores, other in zip(per_grade(weighted), per_grade(repeated), strict=True):
        assert (scores.precision, scores.recall) == pytest.approx((other.precision, other.recall))
    for row, other in zip(reliability(weighted), reliability(repeated), strict=True):
        assert row.count <= other.count and (row.accuracy or 0) == pytest.approx(
            other.accuracy or 0
        )
    assert sum(row.count for row in reliability(weighted)) == 200  # pairs are counted as they are
    inside = judged.query_index % 2 == 0
    (row,) = errors_in_slices(weighted, {"even": inside}, resamples=0)
    assert row.inside == pytest.approx((~repeated.correct)[repeated.query_index % 2 == 0].mean())
    assert row.n == inside.sum()
    other = judged.with_predicted(random_judgements(4, n=200, n_queries=60).predicted)
    both = replace(other, query_weights=weighted.query_weights), other.subset(rows)
    first, second = (
        compare(a, b, metrics=["accuracy"], draws=99).metrics["accuracy"]
        for a, b in zip((weighted, repeated), both, strict=True)
    )
    assert (first.difference, first.ci_low, first.p) == pytest.approx(
        (second.difference, second.ci_low, second.p)
    )


RIGHT = [[0, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0]]


def test_every_interval_holds_its_value(random_judgements):
    evaluation = evaluate(random_judgements(0), resamples=300)
    for name, metric in evaluation.metrics.items():
        assert metric.value == METRICS[name].value(random_judgements(0))
        assert metric.ci_low < metric.ci_high, name
        assert METRICS[name].biased or metric.ci_low < metric.value < metric.ci_high, name


def test_the_interval_of_calibration_error_covers_that_of_all_pairs():
    """Grades right .04 less often than their probability says: the error of all pairs is .04, a sample's larger."""
    covered, above = 0, 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        top = generator.uniform(0.65, 0.95, 200)
        right = generator.random(200) < top - 0.04
        table = np.tile((1 - top)[:, None] / 4, 5)
        table[:, 4] = top
        labels = [(5,) if one else (1,) for one in right]
        queries = [str(row // 4) for row in range(200)]
        judged = judge_grades(table, labels, queries)
        error = evaluate(judged, metrics={"ece": METRICS["ece"]}, resamples=200).metrics["ece"]
        covered += error.ci_low <= 0.04 <= error.ci_high
        above += error.value > 0.04
    assert covered >= 85 and above > 80


def test_overlapping_labels_keep_accuracy_and_ranking_only():
    rows = [[0, 0, 0, 0.5, 0.5], [0.5, 0.5, 0, 0, 0], [0, 0, 1.0, 0, 0], [0, 1.0, 0, 0, 0]]
    judged = judge_grades(rows, [(4, 5), (2, 3), (3,), (2, 3)], ["猫", "猫", "狗", "狗"])
    evaluation = evaluate(judged, resamples=0)
    values = {name for name, metric in evaluation.metrics.items() if metric.value is not None}
    assert values == {"accuracy", "auc", "spearman", "pairwise_accuracy"} | {
        name for name in METRICS if name.startswith(("ndcg", "mrr", "map", "recall"))
    }
    assert evaluation.metrics["accuracy"].value == 3 / 4
    assert reason(evaluation.metrics["qwk"]) == REASONS["overlapping"]
    assert reason(evaluation.metrics["pnr"]) == METRICS["pnr"].undefined
    assert evaluation.confusion is None


def test_a_one_logit_model_is_judged_by_its_order_only():
    judged = judge_scores([3.0, 1.0, 2.0], [(5,), (1,), (2,)], ["猫"] * 3)
    evaluation = evaluate(judged, resamples=0)
    names = {"spearman", "pairwise_accuracy", "auc"}
    names |= {name for name in METRICS if name.startswith(("ndcg", "mrr", "map", "recall"))}
    values = {name: metric.value for name, metric in evaluation.metrics.items()}
    assert values == {name: pytest.approx(1) if name in names else None for name in METRICS}
    assert reason(evaluation.metrics["qwk"]) == REASONS["score"]
    assert reason(evaluation.metrics["pnr"]) == METRICS["pnr"].undefined
    assert evaluation.pnr_counts == PairCounts(3, 0, 0)


def test_a_single_query_has_no_interval():
    judged = judge_grades(RIGHT, [(5,), (1,)], ["猫", "猫"])
    accuracy = evaluate(judged, resamples=20).metrics["accuracy"]
    assert (accuracy.value, accuracy.ci_low) == (1, None)
    assert reason(accuracy) == NO_INTERVAL["query"]


def test_a_figure_that_rests_on_one_query_has_no_interval(hand):
    ndcg = evaluate(hand, resamples=200).metrics["ndcg_at_3"]
    assert ndcg.value is not None and ndcg.ci_low is None
    assert reason(ndcg) == NO_INTERVAL["undefined"]


def test_queries_of_one_title_give_no_ranking():
    evaluation = evaluate(judge_grades(RIGHT, [(5,), (1,)], ["猫", "狗"]), resamples=20)
    ndcg = evaluation.metrics["ndcg_at_5"]
    assert (ndcg.value, ndcg.n_eligible, ndcg.n_queries) == (None, 0, 2)
    assert reason(ndcg) == reason(evaluation.metrics["pnr"]) == NO_ORDER
    assert evaluation.metrics["auc"].value == 1


def test_undefined_resamples_are_dropped_if_few_or_leave_no_interval():
    samples = np.append(np.linspace(0, 1, 96), [np.nan] * 4)
    assert percentile_interval(samples) == pytest.approx((0.025, 0.975))
    for samples in (np.empty(0), np.append(np.ones(94), [np.nan] * 6)):
        assert percentile_interval(samples) is None
