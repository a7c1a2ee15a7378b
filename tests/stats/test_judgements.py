import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.stats.evaluation import signed_error
from qt_bert.stats.judgements import judge_grades, judge_levels, judge_scores, known, read_labels
from qt_bert.stats.metrics import METRICS


def test_sets_are_levels_or_rank_by_their_mean_grade():
    labels = read_labels([(4, 5), (2, 1), (3,), (1, 2)])
    assert (labels.kind, labels.sets) == ("coarse", ((1, 2), (3,), (4, 5)))
    assert (labels.ranking_truth.tolist(), labels.auc_cut) == ([3, 1, 2, 1], 3)
    labels = read_labels([(1, 2), (2, 3), (5,)])
    assert (labels.kind, labels.ranking_truth.tolist()) == ("overlapping", [1.5, 2.5, 5])
    assert read_labels([(2, 4), (3,)]).kind == "overlapping"  # sets of one mean have no order


@pytest.mark.parametrize(("grades", "mrr"), [((4, 5), 1), ((1, 2, 3), 0)])
def test_a_set_alone_is_no_level(grades, mrr):
    """As where a file labels its relevant titles alone: they are relevant, and a 1 and a 5 not both right."""
    judged = judge_grades(np.eye(5)[[4, 0]], [grades] * 2, ["猫", "狗"])
    values = [METRICS[name].value(judged) for name in ("mrr_at_10", "accuracy", "qwk")]
    assert values == [mrr, 0.5, None]


ROW = [0.1, 0.2, 0.4, 0.2, 0.1]
ROWS = [ROW, [0.0, 0.3, 0.3, 0.3, 0.1]]
QUERIES = ["买猫粮", "买猫粮"]


def test_exact_grades_are_judged_at_the_five_grades():
    judged = judge_grades(ROWS, [(3,), (2,)], QUERIES)
    assert (judged.mode, judged.levels) == ("grades", ("1", "2", "3", "4", "5"))
    assert known(judged.predicted).tolist() == [2, 1]
    assert judged.ranking_score == pytest.approx([3.0, 0.6 + 0.9 + 1.2 + 0.5])
    assert known(judged.label_probability).tolist() == [0.4, 0.3]


def test_coarse_labels_are_the_levels_and_sum_their_grades():
    judged = judge_grades(ROWS, [(4, 5), (1, 2)], QUERIES)
    assert (judged.mode, judged.levels) == ("coarse", ("1-2", "4-5"))
    np.testing.assert_allclose(known(judged.level_probabilities), [[0.3, 0.3], [0.3, 0.4]])
    assert known(judged.predicted).tolist() == [0, 1]
    assert known(judged.label_probability) == pytest.approx([0.3, 0.3])
    assert judged.ranking_truth.tolist() == [2, 1]
    assert judged.ranking_score == pytest.approx([3.0, 3.2])


def test_the_expected_level_is_over_the_labels_that_have_a_chance():
    judged = judge_grades(ROWS, [(4, 5), (1, 2)], QUERIES)
    assert judged.expected == pytest.approx([1.5, (0.3 + 2 * 0.4) / 0.7])
    judged = judge_grades([[0, 0, 1.0, 0, 0], ROW], [(4, 5), (1, 2)], QUERIES)
    assert judged.expected[0] == 1


def test_overlapping_labels_or_logits_only_know_right_from_wrong():
    judged = judge_grades(ROWS, [(2, 3), (3, 4)], QUERIES)
    assert (judged.mode, judged.truth) == ("overlapping", None)
    assert known(judged.correct).tolist() == [True, False]
    assert judged.ranking_truth.tolist() == [2.5, 3.5]
    model = [(1, 2, 3), (4,), (5,)]
    judged = judge_grades([[0.8, 0.1, 0.1]], [(3, 4)], ["猫"], model_grades=model)
    assert (judged.mode, known(judged.correct).tolist()) == ("overlapping", [True])


def test_model_grades_reorder_the_logits():
    backward = [(5,), (4,), (3,), (2,), (1,)]
    judged = judge_grades([[0.6, 0.4, 0, 0, 0]], [(5,)], ["猫"], model_grades=backward)
    assert (judged.mode, known(judged.predicted).tolist()) == ("grades", [4])
    assert judged.ranking_score == pytest.approx([4.6])


def test_exact_labels_fit_into_the_levels_of_a_coarser_model():
    model, rows = [(1, 2), (3,), (4, 5)], [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]
    judged = judge_grades(rows, [(2,), (5,)], QUERIES, model_grades=model)
    assert (judged.mode, judged.levels) == ("levels", ("1-2", "3", "4-5"))
    assert known(judged.truth).tolist() == [0, 2]
    assert judged.ranking_truth.tolist() == [2, 5]
    assert judged.ranking_score == pytest.approx([0.75 + 0.9 + 0.9, 0.15 + 0.3 + 3.6])


def test_errors_at_coarse_labels_that_the_logits_cross_are_in_grades():
    rows, labels = [[1, 0], [0.5, 0.5], [0, 1]], [(1, 2), (3, 4), (5,)]
    judged = judge_grades(rows, labels, ["猫"] * 3, model_grades=[(1, 2, 3), (4, 5)])
    assert (judged.mode, judged.ranking_truth.tolist()) == ("overlapping", [1, 2, 3])
    assert signed_error(judged).tolist() == [2 - 1.5, 3.25 - 3.5, 4.5 - 5]


def test_a_grade_by_cutoffs_that_no_label_means_is_the_likelier_level():
    rows, predicted = [[0.1, 0.1, 0.2, 0.5, 0.1], [0.1, 0.1, 0.1, 0.4, 0.3]], np.array([3, 2])
    judged = judge_grades(rows, [(1, 2), (5,)], QUERIES, predicted=predicted)
    assert known(judged.predicted).tolist() == [0, 1]


def test_levels_of_a_model_are_numbered_from_one():
    judged = judge_levels([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]], [2, 1], QUERIES)
    assert judged.levels == ("0", "1", "2")
    assert judged.ranking_score == pytest.approx([2.3, 1.5])
    assert known(judged.correct).tolist() == [True, False]
    assert judged.auc_cut == 3


def test_a_subset_keeps_the_levels_and_renumbers_queries(hand):
    part = hand.subset(np.array([False, False, True, False, False, True]))
    assert known(part.truth).tolist() == [0, 1]
    assert part.query_index.tolist() == [0, 1]
    assert (part.n_queries, part.levels) == (2, hand.levels)


SCORES = judge_scores([1.0], [(1,)], ["猫"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: judge_grades(ROWS, [(3,)], ["猫"]), "2 rows of probabilities for 1 labels"),
        (lambda: judge_grades(ROWS, [(3,), (2,)], ["猫"]), "1 queries for 2 labels"),
        (lambda: judge_grades([ROW, [np.nan] * 5], [(3,), (2,)], QUERIES), "pair 1 has the prob"),
        (lambda: judge_grades([ROW, [0.9] * 5], [(3,), (2,)], QUERIES), "must sum to 1"),
        (lambda: judge_grades([ROW, [-1.0, 2, 0, 0, 0]], [(3,), (2,)], QUERIES), "pair 1"),
        (lambda: judge_grades([[0.5, 0.5]], [(3,)], ["猫"]), r"shape \(1, 2\), not \(pairs, 5\)"),
        (lambda: judge_grades(ROW, [(3,)], ["猫"]), r"shape \(5,\)"),
        (lambda: judge_grades(np.empty((0, 5)), [], []), "no graded pair"),
        (
            lambda: judge_grades([[0.5, 0.5]], [(3,)], ["猫"], model_grades=[(1,), ()]),
            "logit 1 is empty",
        ),
        (lambda: judge_levels([[0.2, 0.3, 0.5]], [3], ["猫"]), "label 3 of pair 0.*3 levels"),
        (lambda: judge_levels([[0.2, 0.3, 0.5]], [-1], ["猫"]), "label -1 of pair 0"),
        (lambda: judge_levels(np.empty((0, 3)), [], []), "no graded pair"),
        (lambda: judge_scores([1.0, np.nan], [(1,), (2,)], QUERIES), "scores: pair 1 has nan"),
        (lambda: judge_scores([[1.0], [2.0]], [(1,), (2,)], QUERIES), r"shape \(2, 1\)"),
        (lambda: SCORES.with_predicted([0]), "mode score"),
        (lambda: SCORES.subset(np.zeros(1, dtype=bool)), "no graded pair is left"),
        (lambda: read_labels([(3,), ()]), "label of pair 1 is empty"),
        (lambda: read_labels([(3,), None]), "label of pair 1 is empty"),
        (lambda: read_labels([(1, 6)]), "from 1 to 5"),
    ],
)
def test_bad_input_says_what_and_where(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("predicted", [[0, 1], [5, 0, 0, 0, 0, 0], [0.5, 0, 0, 0, 0, 0]])
def test_predictions_that_do_not_fit_are_refused(hand, predicted):
    with pytest.raises(ArgumentError):
        hand.with_predicted(predicted)
