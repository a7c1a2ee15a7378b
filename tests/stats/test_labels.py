from __future__ import annotations

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.stats.judgements import middle_cut, name_set, read_labels


def test_exact_grades_rank_by_the_grade() -> None:
    labels = read_labels([(5,), (1,), (3,), (5,)])
    assert labels.kind == "exact"
    assert labels.ranking_truth.tolist() == [5, 1, 3, 5]
    assert labels.auc_cut == 4


def test_disjoint_sets_are_levels_in_order_of_their_mean() -> None:
    labels = read_labels([(4, 5), (2, 1), (3,), (1, 2)])
    assert labels.kind == "coarse"
    assert labels.sets == ((1, 2), (3,), (4, 5))
    assert labels.ranking_truth.tolist() == [3, 1, 2, 1]
    assert labels.auc_cut == 3


def test_overlapping_sets_rank_by_their_mean_grade() -> None:
    labels = read_labels([(1, 2), (2, 3), (5,)])
    assert labels.kind == "overlapping"
    assert labels.ranking_truth.tolist() == [1.5, 2.5, 5]


def test_disjoint_sets_of_one_mean_have_no_order() -> None:
    assert read_labels([(2, 4), (3,)]).kind == "overlapping"


@pytest.mark.parametrize(("n_levels", "cut"), [(2, 2), (3, 3), (4, 3), (5, 4)])
def test_the_cut_is_strictly_above_the_middle(n_levels: int, cut: int) -> None:
    assert middle_cut(n_levels) == cut


@pytest.mark.parametrize(
    ("grades", "name"), [((3,), "3"), ((1, 2), "1-2"), ((1, 3), "1,3"), ((2, 3, 4), "2-4")]
)
def test_sets_are_named_as_a_reader_writes_them(grades: tuple[int, ...], name: str) -> None:
    assert name_set(grades) == name


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "no graded pair"),
        ([(3,), ()], "label of pair 1 is empty"),
        ([(3,), None], "label of pair 1 is empty"),
        ([(0,)], "from 1 to 5"),
        ([(1, 6)], "from 1 to 5"),
    ],
)
def test_bad_labels_say_what_and_where(labels: list[tuple[int, ...] | None], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read_labels(labels)
