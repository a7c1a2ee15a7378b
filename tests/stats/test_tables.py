from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn import metrics as reference

from qt_bert.stats.evaluation import confusion, furthest_off, per_grade, pnr_counts, reliability
from qt_bert.stats.judgements import Judgements, judge_grades, judge_scores


def test_confusion_has_labels_in_rows(hand: Judgements) -> None:
    assert confusion(hand).tolist() == [
        [0, 0, 1, 0, 0],
        [0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 2, 0],
        [0, 0, 0, 0, 1],
    ]


def test_figures_of_each_grade_are_those_of_sklearn(
    random_judgements: Callable[..., Judgements],
) -> None:
    judged = random_judgements(1)
    rows = per_grade(judged)
    expected = reference.precision_recall_fscore_support(judged.truth, judged.predicted)
    for name, column in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        assert [row[name] for row in rows] == pytest.approx(list(column))


def test_a_grade_never_seen_has_no_figures() -> None:
    judged = judge_grades([[0, 0, 1.0, 0, 0]], [(3,)], ["猫"])
    assert per_grade(judged)[0] == {
        "level": "1",
        "precision": None,
        "recall": None,
        "f1": None,
        "support": 0,
        "predicted": 0,
    }


def test_reliability_bins_hold_every_pair(hand: Judgements) -> None:
    bins = reliability(hand)
    assert len(bins) == 15
    assert sum(one["count"] for one in bins) == 6
    assert (bins[7]["confidence"], bins[7]["accuracy"], bins[7]["count"]) == (0.5, 0.6, 5)
    assert bins[0]["confidence"] is None


def test_a_certain_prediction_is_in_the_last_bin() -> None:
    judged = judge_grades([[0, 0, 1.0, 0, 0]], [(3,)], ["猫"])
    assert reliability(judged)[14]["count"] == 1


def test_pnr_counts_are_named(hand: Judgements) -> None:
    assert pnr_counts(hand) == {"concordant": 2, "discordant": 1, "tied": 0}


def test_the_pairs_furthest_off_come_first(hand: Judgements) -> None:
    assert furthest_off(hand, 2).tolist() == [2, 1]


def test_overlapping_labels_are_as_far_as_their_mean() -> None:
    rows = [[0, 1.0, 0, 0, 0], [0, 0, 0, 0, 1.0]]
    judged = judge_grades(rows, [(1, 2), (2, 3)], ["猫", "狗"])
    assert furthest_off(judged, 5).tolist() == [1, 0]


def test_scores_are_as_far_as_their_ranks() -> None:
    judged = judge_scores([100.0, 3.0, 1.0], [(5,), (1,), (4,)], ["猫"] * 3)
    assert furthest_off(judged, 3)[-1] == 0
    assert np.sort(furthest_off(judged, 3)).tolist() == [0, 1, 2]
