from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from qt_bert.stats.evaluation import evaluate
from qt_bert.stats.judgements import Judgements, judge_grades, judge_levels, judge_scores
from qt_bert.stats.metrics import METRICS

RIGHT = [[0, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0]]


def test_every_interval_holds_its_value(random_judgements: Callable[..., Judgements]) -> None:
    found = evaluate(random_judgements(0), resamples=300)
    for name, one in found.metrics.items():
        assert one.value == METRICS[name].value(random_judgements(0))
        assert one.value is not None and one.ci_low is not None and one.ci_high is not None
        assert one.ci_low < one.value < one.ci_high, name


def test_one_seed_gives_one_result(random_judgements: Callable[..., Judgements]) -> None:
    one, two, other = (evaluate(random_judgements(0), resamples=50, seed=s) for s in (1, 1, 2))
    assert one == two
    assert one.metrics["qwk"].ci_low != other.metrics["qwk"].ci_low


def test_json_has_the_metrics_and_the_tables(hand: Judgements) -> None:
    stored = json.loads(json.dumps(evaluate(hand, resamples=20).to_json(), allow_nan=False))
    assert set(stored["accuracy"]) == {"value", "ci_low", "ci_high", "n"}
    assert stored["accuracy"]["n"] == 6
    assert stored["ndcg_at_5"]["n_eligible"] == 1
    assert stored["ndcg_at_5"]["n_queries"] == 3
    assert stored["pnr_counts"]["discordant"] == 1
    assert stored["levels"] == ["1", "2", "3", "4", "5"]
    assert len(stored["confusion"]) == len(stored["per_grade"]) == 5
    assert len(stored["reliability"]) == 15
    assert stored["settings"] == {"resamples": 20, "seed": 0, "auc_cut": 4.0}


def test_overlapping_labels_keep_accuracy_and_ranking_only() -> None:
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


def test_a_one_logit_model_is_judged_by_its_order_only() -> None:
    judged = judge_scores([3.0, 1.0, 2.0], [(5,), (1,), (2,)], ["猫"] * 3)
    found = evaluate(judged, resamples=0)
    values = {name: one.value for name, one in found.metrics.items() if one.value is not None}
    assert set(values) == {"spearman", "pairwise_accuracy"} | {
        name for name in METRICS if name.startswith("ndcg")
    }
    assert list(values.values()) == pytest.approx([1.0] * len(values))
    assert "one-logit" in (found.metrics["pnr"].reason or "")
    assert found.pnr_counts is None


def test_a_three_level_model_has_every_metric() -> None:
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(3), size=60)
    truth = generator.integers(0, 3, 60).tolist()
    found = evaluate(judge_levels(probabilities, truth, ["猫", "狗"] * 30), resamples=0)
    assert all(one.value is not None for one in found.metrics.values())
    assert found.levels == ("0", "1", "2")


def test_a_single_query_has_no_interval() -> None:
    found = evaluate(judge_grades(RIGHT, [(5,), (1,)], ["猫", "猫"]), resamples=20)
    assert found.metrics["accuracy"].value == 1
    assert found.metrics["accuracy"].ci_low is None
    assert "single query" in (found.metrics["accuracy"].reason or "")


def test_no_resamples_give_no_interval(hand: Judgements) -> None:
    found = evaluate(hand, resamples=0)
    assert found.metrics["accuracy"].ci_low is None
    assert "no resamples" in (found.metrics["accuracy"].reason or "")


def test_a_figure_that_rests_on_one_query_has_no_interval(hand: Judgements) -> None:
    found = evaluate(hand, resamples=200).metrics["ndcg_at_3"]
    assert found.value is not None
    assert found.ci_low is None
    assert "undefined in more than" in (found.reason or "")


def test_queries_of_one_title_give_no_ranking() -> None:
    found = evaluate(judge_grades(RIGHT, [(5,), (1,)], ["猫", "狗"]), resamples=20)
    ndcg = found.metrics["ndcg_at_5"]
    assert (ndcg.value, ndcg.n_eligible, ndcg.n_queries) == (None, 0, 2)
    assert "no query has titles of two grades" in (ndcg.reason or "")
    assert "two grades" in (found.metrics["pnr"].reason or "")
    assert found.metrics["auc"].value == 1


def test_one_grade_and_one_prediction_leave_kappa_undefined() -> None:
    found = evaluate(judge_grades([RIGHT[0]] * 4, [(5,)] * 4, list("甲乙丙丁")), resamples=20)
    assert found.metrics["accuracy"].value == 1
    for name in ("qwk", "spearman", "auc"):
        assert found.metrics[name].value is None
        assert found.metrics[name].reason == METRICS[name].undefined


def test_a_constant_prediction_orders_nothing() -> None:
    found = evaluate(
        judge_grades([RIGHT[0]] * 4, [(5,), (1,), (4,), (2,)], ["猫"] * 4), resamples=0
    )
    assert found.metrics["pairwise_accuracy"].value == 0.5
    assert found.metrics["auc"].value == 0.5
    assert found.metrics["qwk"].value == 0
    assert found.metrics["pnr"].value is None
    assert found.pnr_counts == {"concordant": 0, "discordant": 0, "tied": 6}


def test_one_pair_can_be_evaluated() -> None:
    found = evaluate(judge_grades([RIGHT[0]], [(4,)], ["猫"]), resamples=20)
    assert found.metrics["mae"].value == 1
    assert found.metrics["bias"].value == 1
