"""Every metric of the registry on six pairs, against fractions worked out on paper."""

from __future__ import annotations

from math import log, log2, sqrt

import pytest

from qt_bert.stats.judgements import Judgements, judge_grades, judge_scores
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.metrics.ranking import ordered_pairs_by_query

BY_HAND = {
    "accuracy": 4 / 6,
    "macro_f1": 3 / 5,
    "qwk": 41 / 65,
    "mae": 2 / 3,
    "macro_mae": 4 / 5,
    "within_one": 4 / 6,
    "bias": 1.25 / 6,
    "far_errors": 2 / 6,
    "ndcg_at_1": 1.0,
    "ndcg_at_3": 16.5 / (15 + 3 / log2(3)),
    "ndcg_at_5": 16.5 / (15 + 3 / log2(3)),
    "ndcg_at_10": 16.5 / (15 + 3 / log2(3)),
    "ndcg_linear_at_1": 1.0,
    "ndcg_linear_at_3": 5 / (4 + 2 / log2(3)),
    "ndcg_linear_at_5": 5 / (4 + 2 / log2(3)),
    "ndcg_linear_at_10": 5 / (4 + 2 / log2(3)),
    "pnr": 2 / 1,
    "pairwise_accuracy": 2 / 3,
    "auc": 1.0,
    "spearman": 13 / sqrt(17.5 * 17),
    "ece": 1 / 8,
    "brier": 13 / 24,
    "nll": (log(4 / 3) + 7 * log(2)) / 6,
}


def test_every_metric_is_worked_out_by_hand() -> None:
    assert set(METRICS) == set(BY_HAND)


@pytest.mark.parametrize("name", BY_HAND)
def test_value_by_hand(hand: Judgements, name: str) -> None:
    assert METRICS[name].value(hand) == pytest.approx(BY_HAND[name], abs=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_a_declaration_is_complete(name: str) -> None:
    metric = METRICS[name]
    assert metric.name == name
    assert all(metric.title) and all(metric.description)
    low, high = metric.range
    value = BY_HAND[name]
    assert (low is None or value >= low) and (high is None or value <= high)


def test_tied_scores_share_their_gain() -> None:
    judged = judge_scores([1.0, 1.0, 1.0], [(5,), (3,), (1,)], ["猫"] * 3)
    discounts = 1 + 1 / log2(3) + 1 / 2
    assert METRICS["ndcg_at_1"].value(judged) == pytest.approx(6 / 15)
    assert METRICS["ndcg_at_3"].value(judged) == pytest.approx(6 * discounts / (15 + 3 / log2(3)))


def test_score_ties_are_in_neither_sum_of_pnr() -> None:
    rows = [[0, 0, 0, 0, 1.0], [0, 0, 1.0, 0, 0], [0, 0, 1.0, 0, 0], [0, 0, 0, 1.0, 0]]
    judged = judge_grades(rows, [(5,), (4,), (3,), (1,)], ["猫"] * 4)
    assert ordered_pairs_by_query(judged).tolist() == [[3, 2, 1]]
    assert METRICS["pnr"].value(judged) == 3 / 2
    assert METRICS["pairwise_accuracy"].value(judged) == pytest.approx(3.5 / 6)


def test_pnr_is_undefined_where_nothing_is_in_the_wrong_order() -> None:
    judged = judge_grades([[0, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0]], [(5,), (1,)], ["猫"] * 2)
    assert METRICS["pnr"].value(judged) is None


def test_a_level_neither_labelled_nor_predicted_stays_out_of_macro_f1() -> None:
    rows = [[0, 1.0, 0, 0, 0], [0, 1.0, 0, 0, 0], [0, 0, 1.0, 0, 0]]
    judged = judge_grades(rows, [(2,), (3,), (3,)], ["猫"] * 3)
    assert METRICS["macro_f1"].value(judged) == pytest.approx(2 / 3)


def test_a_label_of_no_probability_costs_a_finite_loss() -> None:
    judged = judge_grades([[1.0, 0, 0, 0, 0]], [(5,)], ["猫"])
    assert METRICS["nll"].value(judged) == pytest.approx(708.3964, abs=1e-3)


def test_coarse_calibration_is_over_levels() -> None:
    judged = judge_grades(
        [[0.25, 0.25, 0.25, 0.25, 0], [0, 0, 0.5, 0.5, 0]], [(1, 2), (3, 4, 5)], ["猫", "狗"]
    )
    assert METRICS["brier"].value(judged) == pytest.approx((0.5 + 0) / 2)
    assert METRICS["nll"].value(judged) == pytest.approx(log(2) / 2)
    assert METRICS["ece"].value(judged) == pytest.approx(0.5 / 2)
