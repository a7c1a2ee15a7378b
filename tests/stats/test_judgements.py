from __future__ import annotations

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.stats.judgements import Judgements, index_queries, judge_scores, known


def test_queries_are_numbered_in_order_of_appearance() -> None:
    index, n_queries = index_queries(["乙", "甲", "乙"])
    assert index.tolist() == [0, 1, 0]
    assert n_queries == 2


def test_only_queries_with_two_grades_are_eligible(hand: Judgements) -> None:
    assert hand.eligible.tolist() == [True, False, False]


def test_a_subset_keeps_the_levels_and_renumbers_queries(hand: Judgements) -> None:
    part = hand.subset(np.array([False, False, True, False, False, True]))
    assert known(part.truth).tolist() == [0, 1]
    assert part.query_index.tolist() == [0, 1]
    assert part.n_queries == 2
    assert part.levels == hand.levels


def test_an_empty_subset_is_refused(hand: Judgements) -> None:
    with pytest.raises(ArgumentError, match="no graded pair is left"):
        hand.subset(np.zeros(6, dtype=bool))


def test_other_predictions_change_what_is_correct(hand: Judgements) -> None:
    judged = hand.with_predicted([4, 2, 0, 0, 0, 0])
    assert known(judged.correct).tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize("predicted", [[0, 1], [5, 0, 0, 0, 0, 0], [0.5, 0, 0, 0, 0, 0]])
def test_predictions_that_do_not_fit_are_refused(hand: Judgements, predicted: list[float]) -> None:
    with pytest.raises(ArgumentError):
        hand.with_predicted(predicted)


def test_scores_have_no_levels_to_predict() -> None:
    with pytest.raises(ArgumentError, match="mode score"):
        judge_scores([1.0], [(1,)], ["猫"]).with_predicted([0])
