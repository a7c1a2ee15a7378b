from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as reference
from sklearn.metrics import roc_auc_score

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import bootstrap_weights, percentile_interval, resample
from qt_bert.stats.evaluation import (
    PairCounts,
    confusion,
    errors_in_slices,
    evaluate,
    furthest_off,
    per_grade,
)
from qt_bert.stats.judgements import Judgements, judge_grades, judge_scores
from qt_bert.stats.metrics import METRICS


def test_confusion_has_labels_in_rows(hand):
    assert confusion(hand).tolist() == [
        [0, 0, 1, 0, 0],
        [0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 2, 0],
        [0, 0, 0, 0, 1],
    ]


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
    found = errors_in_slices(judged, {"even": inside, "few": judged.query_index < 3}, resamples=500)
    assert [one.slice for one in found] == ["even"]  # three queries are too few
    (one,), wrong = found, ~judged.correct
    assert one.inside == pytest.approx(wrong[inside].mean())
    assert one.difference == pytest.approx(wrong[inside].mean() - wrong[~inside].mean())
    assert one.ci_low < one.difference < one.ci_high and one.q == one.p > 0.05


RIGHT = [[0, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0]]


def test_every_interval_holds_its_value(random_judgements):
    found = evaluate(random_judgements(0), resamples=300)
    for name, one in found.metrics.items():
        assert one.value == METRICS[name].value(random_judgements(0))
        assert one.value is not None and one.ci_low is not None and one.ci_high is not None
        assert one.ci_low < one.value < one.ci_high, name


def test_overlapping_labels_keep_accuracy_and_ranking_only():
    rows = [[0, 0, 0, 0.5, 0.5], [0.5, 0.5, 0, 0, 0], [0, 0, 1.0, 0, 0], [0, 1.0, 0, 0, 0]]
    judged = judge_grades(rows, [(4, 5), (2, 3), (3,), (2, 3)], ["猫", "猫", "狗", "狗"])
    found = evaluate(judged, resamples=0)
    values = {name for name, one in found.metrics.items() if one.value is not None}
    assert values == {"accuracy", "auc", "spearman", "pairwise_accuracy"} | {
        name for name in METRICS if name.startswith("ndcg")
    }
    assert found.metrics["accuracy"].value == 3 / 4
    assert "overlap" in (found.metrics["qwk"].reason or "")
    assert "wrong order" in (found.metrics["pnr"].reason or "")
    assert found.confusion is None


def test_a_one_logit_model_is_judged_by_its_order_only():
    judged = judge_scores([3.0, 1.0, 2.0], [(5,), (1,), (2,)], ["猫"] * 3)
    found = evaluate(judged, resamples=0)
    values = {name: one.value for name, one in found.metrics.items() if one.value is not None}
    assert set(values) == {"spearman", "pairwise_accuracy", "auc"} | {
        name for name in METRICS if name.startswith("ndcg")
    }
    assert list(values.values()) == pytest.approx([1.0] * len(values))
    assert "one-logit" in (found.metrics["qwk"].reason or "")
    assert "wrong order" in (found.metrics["pnr"].reason or "")
    assert found.pnr_counts == PairCounts(3, 0, 0)


def test_auc_and_pnr_of_one_logit_are_those_of_any_score():
    scores, grades = [0.4, 0.4, -1.0, 2.0, 0.1], [4, 1, 2, 5, 5]
    judged = judge_scores(scores, [(grade,) for grade in grades], ["猫", "猫", "猫", "狗", "猫"])
    assert METRICS["auc"].value(judged) == roc_auc_score([g >= 4 for g in grades], scores)
    # Of the six pairs of 猫: 4/1 tied; 4/2, 1/2, 5/2 by score; 5/4 and 5/1 are upside down.
    assert METRICS["pnr"].value(judged) == 2 / 3


def test_a_single_query_has_no_interval():
    found = evaluate(judge_grades(RIGHT, [(5,), (1,)], ["猫", "猫"]), resamples=20)
    assert found.metrics["accuracy"].value == 1
    assert found.metrics["accuracy"].ci_low is None
    assert "single query" in (found.metrics["accuracy"].reason or "")


def test_a_figure_that_rests_on_one_query_has_no_interval(hand):
    found = evaluate(hand, resamples=200).metrics["ndcg_at_3"]
    assert found.value is not None
    assert found.ci_low is None
    assert "undefined in more than" in (found.reason or "")


def test_queries_of_one_title_give_no_ranking():
    found = evaluate(judge_grades(RIGHT, [(5,), (1,)], ["猫", "狗"]), resamples=20)
    ndcg = found.metrics["ndcg_at_5"]
    assert (ndcg.value, ndcg.n_eligible, ndcg.n_queries) == (None, 0, 2)
    assert "no query has titles of two grades" in (ndcg.reason or "")
    assert "two grades" in (found.metrics["pnr"].reason or "")
    assert found.metrics["auc"].value == 1


def test_a_negative_number_of_resamples_is_refused():
    with pytest.raises(ArgumentError, match="resamples is -1"):
        list(bootstrap_weights(3, -1, 0, width=3))


def test_copies_of_a_title_do_not_narrow_the_interval(random_judgements):
    judged = random_judgements(0, n=40, n_queries=10**9)
    copies = judged.subset(np.repeat(np.arange(40), 10))
    one, ten = (percentile_interval(_accuracies(some)) for some in (judged, copies))
    assert one is not None and ten is not None
    assert one == pytest.approx(ten)


def _accuracies(judged: Judgements) -> FloatArray:
    weights = bootstrap_weights(judged.n_queries, 500, 0, width=1)
    return np.asarray(resample([METRICS["accuracy"].estimator(judged)], weights)[0])


def test_few_undefined_resamples_are_dropped():
    samples = np.append(np.linspace(0, 1, 96), [np.nan] * 4)
    assert percentile_interval(samples) == pytest.approx((0.025, 0.975))


@pytest.mark.parametrize("samples", [np.empty(0), np.append(np.ones(94), [np.nan] * 6)])
def test_too_few_resamples_give_no_interval(samples):
    assert percentile_interval(samples) is None
