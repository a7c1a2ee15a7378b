from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.stats.judgements import judge_grades, judge_levels, judge_scores, known

ROW = [0.1, 0.2, 0.4, 0.2, 0.1]
ROWS = [ROW, [0.0, 0.3, 0.3, 0.3, 0.1]]
QUERIES = ["买猫粮", "买猫粮"]


def test_exact_grades_are_judged_at_the_five_grades() -> None:
    judged = judge_grades(ROWS, [(3,), (2,)], QUERIES)
    assert judged.mode == "grades"
    assert judged.levels == ("1", "2", "3", "4", "5")
    assert known(judged.predicted).tolist() == [2, 1]
    assert judged.ranking_score == pytest.approx([3.0, 0.6 + 0.9 + 1.2 + 0.5])
    assert known(judged.label_probability).tolist() == [0.4, 0.3]


def test_equal_probabilities_give_equal_scores() -> None:
    row = np.random.default_rng(0).dirichlet(np.ones(5))
    judged = judge_grades(np.tile(row, (1_001, 1)), [(3,)] * 1_001, ["买猫粮"] * 1_001)
    assert len(set(judged.ranking_score.tolist())) == 1


def test_coarse_labels_are_the_levels_and_sum_their_grades() -> None:
    judged = judge_grades(ROWS, [(4, 5), (1, 2)], QUERIES)
    assert judged.mode == "coarse"
    assert judged.levels == ("1-2", "4-5")
    np.testing.assert_allclose(known(judged.level_probabilities), [[0.3, 0.3], [0.3, 0.4]])
    assert known(judged.predicted).tolist() == [0, 1]
    assert known(judged.label_probability) == pytest.approx([0.3, 0.3])
    assert judged.ranking_truth.tolist() == [2, 1]
    assert judged.ranking_score == pytest.approx([3.0, 3.2])


def test_expected_level_leaves_out_grades_that_no_label_means() -> None:
    judged = judge_grades(ROWS, [(4, 5), (1, 2)], QUERIES)
    assert judged.expected == pytest.approx([1.5, (0.3 + 2 * 0.4) / 0.7])


def test_expected_level_is_the_predicted_one_where_no_level_has_a_chance() -> None:
    judged = judge_grades([[0, 0, 1.0, 0, 0], ROW], [(4, 5), (1, 2)], QUERIES)
    assert judged.expected[0] == 1


def test_overlapping_labels_only_know_right_from_wrong() -> None:
    judged = judge_grades(ROWS, [(2, 3), (3, 4)], QUERIES)
    assert judged.mode == "overlapping"
    assert known(judged.correct).tolist() == [True, False]
    assert judged.truth is None
    assert judged.ranking_truth.tolist() == [2.5, 3.5]


def test_model_grades_reorder_the_logits() -> None:
    backward = [(5,), (4,), (3,), (2,), (1,)]
    judged = judge_grades([[0.6, 0.4, 0, 0, 0]], [(5,)], ["猫"], model_grades=backward)
    assert judged.mode == "grades"
    assert known(judged.predicted).tolist() == [4]
    assert judged.ranking_score == pytest.approx([4.6])


def test_exact_labels_fit_into_the_levels_of_a_coarser_model() -> None:
    model = [(1, 2), (3,), (4, 5)]
    judged = judge_grades(
        [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [(2,), (5,)], QUERIES, model_grades=model
    )
    assert judged.mode == "levels"
    assert judged.levels == ("1-2", "3", "4-5")
    assert known(judged.truth).tolist() == [0, 2]
    assert judged.ranking_truth.tolist() == [2, 5]
    assert judged.ranking_score == pytest.approx([0.75 + 0.9 + 0.9, 0.15 + 0.3 + 3.6])


def test_a_logit_that_spans_two_labels_leaves_overlapping_sets() -> None:
    model = [(1, 2, 3), (4,), (5,)]
    judged = judge_grades([[0.8, 0.1, 0.1]], [(3, 4)], ["猫"], model_grades=model)
    assert judged.mode == "overlapping"
    assert known(judged.correct).tolist() == [True]


def test_levels_of_a_model_are_numbered_from_one() -> None:
    judged = judge_levels([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]], [2, 1], QUERIES)
    assert judged.levels == ("0", "1", "2")
    assert judged.ranking_score == pytest.approx([2.3, 1.5])
    assert known(judged.correct).tolist() == [True, False]
    assert judged.auc_cut == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ROWS, [(3,)], ["猫"]), "2 rows of probabilities for 1 labels"),
        ((ROWS, [(3,), (2,)], ["猫"]), "1 queries for 2 labels"),
        (([ROW, [np.nan] * 5], [(3,), (2,)], QUERIES), "pair 1 has the probabilities"),
        (([ROW, [0.9] * 5], [(3,), (2,)], QUERIES), "must sum to 1"),
        (([ROW, [-1.0, 2.0, 0, 0, 0]], [(3,), (2,)], QUERIES), "pair 1"),
        (([[0.5, 0.5]], [(3,)], ["猫"]), r"shape \(1, 2\), not \(pairs, 5\)"),
        ((ROW, [(3,)], ["猫"]), r"shape \(5,\)"),
        ((np.empty((0, 5)), [], []), "no graded pair"),
    ],
)
def test_bad_probabilities_are_refused(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        judge_grades(*arguments)


def test_a_logit_without_a_grade_is_refused() -> None:
    with pytest.raises(ArgumentError, match="logit 1 is empty"):
        judge_grades([[0.5, 0.5]], [(3,)], ["猫"], model_grades=[(1,), ()])


@pytest.mark.parametrize("label", [3, -1])
def test_a_label_outside_the_model_levels_is_refused(label: int) -> None:
    with pytest.raises(ArgumentError, match=f"label {label} of pair 0.*3 levels"):
        judge_levels([[0.2, 0.3, 0.5]], [label], ["猫"])


def test_no_level_label_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no graded pair"):
        judge_levels(np.empty((0, 3)), [], [])


def test_a_score_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ArgumentError, match="scores: pair 1 has nan"):
        judge_scores([1.0, np.nan], [(1,), (2,)], QUERIES)


def test_scores_must_be_one_for_each_label() -> None:
    with pytest.raises(ArgumentError, match=r"shape \(2, 1\)"):
        judge_scores([[1.0], [2.0]], [(1,), (2,)], QUERIES)
