import numpy as np
import pytest

from qt_bert.codec import encode
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.files import write_json
from qt_bert.models.card import ModelLabels
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.evaluate import compare_models, error_table, evaluation_json, query_table
from qt_bert.scoring.judge import graded_pairs, judge_file, judge_logits, read_outputs
from qt_bert.stats.calibration import Calibration, ScoreCalibration
from qt_bert.stats.evaluation import signed_error
from tests.conftest import FIVE


def pair(*grades):
    return Pair("q", "t", grades, "1", 1, "x", {})


@pytest.fixture
def scorer_of(checkpoint_of):
    """`scorer_of(labels=3)`: the scorer of a tiny checkpoint."""
    return lambda **options: Scorer(open_checkpoint(checkpoint_of(**options)))


@pytest.fixture
def pairs_of(write):
    """`pairs_of(["query\ttitle\t5", ...])`: a file of these rows."""

    def to_file(rows, header="query\ttitle\tgrade"):
        return write("p.tsv", "\n".join([header, *rows]) + "\n")

    return to_file


class FixedLogits:
    """A scorer whose logits are a function of query and title."""

    def __init__(self, scorer, logits):
        self._scorer, self._logits = scorer, logits

    def __getattr__(self, name):
        return getattr(self._scorer, name)

    def logits(self, pairs, shown=None):
        return np.array([self._logits(*pair) for pair in pairs], np.float32)


def test_exact_grades_by_hand():
    logits = np.log(np.array([[0.1, 0.1, 0.1, 0.1, 0.6], [0.7, 0.1, 0.1, 0.05, 0.05]]))
    judged = judge_logits(logits, [pair(5), pair(2)], FIVE)
    assert judged.mode == "grades"
    assert list(judged.predicted) == [4, 0]
    np.testing.assert_allclose(judged.ranking_score, [4.0, 1.65])


def test_temperature_and_cutoffs_act_where_given():
    logits = np.log(np.array([[0.1, 0.1, 0.1, 0.1, 0.6]]))
    judged = judge_logits(logits, [pair(3)], FIVE, Calibration(1.0, (1.5, 2.5, 4.5, 4.8)))
    assert list(judged.predicted) == [2]


def test_cutoffs_act_on_labels_that_overlap():
    logits = np.log(np.array([[0.1, 0.1, 0.1, 0.1, 0.6]] * 2))  # 4 is expected, 5 the likeliest
    pairs = [pair(3, 4), pair(4, 5)]
    outcomes = [[False, True], [True, False]]
    for calibration, correct in zip(
        (None, Calibration(1.0, (1.5, 2.5, 4.5, 4.8))), outcomes, strict=True
    ):
        judged = judge_logits(logits, pairs, FIVE, calibration)
        assert (judged.mode, judged.correct.tolist()) == ("overlapping", correct)
    score = ScoreCalibration(
        "platt", FIVE.grades, (((0.0,), (5.0,)),) * 4, (-3.0, -2.0, 0.5, 1.0), 3, 0.0
    )
    judged = judge_logits(np.zeros((2, 1)), pairs, ModelLabels(1, None), score)
    assert judged.correct.tolist() == [True, False]
    # p_1 is .0067, the others' share of the rest .001, .000999 and .000998: 4.967 are expected, of a logit of 0
    assert signed_error(judged) == pytest.approx([1.467, 0.467], abs=0.001)
    # Of coarse labels, too, the grade 3 by cut-offs counts, not the likeliest, 5.
    coarse = judge_logits(
        np.zeros((2, 1)), [pair(1, 2, 3), pair(4, 5)], ModelLabels(1, None), score
    )
    assert (coarse.mode, coarse.correct.tolist()) == ("coarse", [True, False])
    assert coarse.predicted.tolist() == [0, 0]


def test_cutoffs_for_other_levels_are_refused():
    logits = np.zeros((2, 5))
    pairs = [pair(1, 2), pair(3, 4, 5)]
    with pytest.raises(ArgumentError, match="leave --calibrated out"):
        judge_logits(logits, pairs, FIVE, Calibration(1.0, (1.5, 2.5, 3.5, 4.5)))


def test_outputs_of_a_three_level_model_by_hand():
    outputs = read_outputs(np.log([[0.2, 0.3, 0.5]]), ModelLabels(3, None))
    assert outputs.predicted == ["2"]
    assert outputs.expected[0] == pytest.approx(1.3)


def test_equal_logits_tie():
    """A matrix product would round some of the rows differently."""
    row = np.random.default_rng(7).normal(size=(1, 8)).astype(np.float32)
    assert len({*read_outputs(np.repeat(row, 7, axis=0), ModelLabels(8, None)).expected}) == 1


def test_labels_that_are_no_grades_name_the_option(scorer_of, pairs_of):
    with pytest.raises(PairFileError, match="by --grades"):
        judge_file(pairs_of(["狗\t猫\t0"] * 20), ReaderOptions(), scorer_of())


def test_evaluation_json_is_complete(scorer_of, pair_file, tmp_path):
    from qt_bert.results.evaluation import EvaluationResult

    scorer = scorer_of()
    judged = judge_file(pair_file, ReaderOptions(), scorer)
    evaluation = evaluation_json(judged, scorer, pair_file, resamples=50)
    assert evaluation["metrics"]["accuracy"]["n"] == 8 and evaluation["outputs"] == list("12345")
    assert sum(map(sum, evaluation["confusion"])) == 8
    write_json(tmp_path / "evaluation.json", evaluation)
    assert encode(EvaluationResult.read(tmp_path / "evaluation.json")) == evaluation
    assert "score" not in evaluation["examples"][0] and "guards" not in evaluation  # if None


def test_a_label_that_is_its_grade_stands_alone(scorer_of, pairs_of):
    path, scorer = pairs_of([f"狗\t猫{label}\t{label}" for label in ("4", "3-4", "1")]), scorer_of()
    judged = judge_file(path, ReaderOptions(), scorer)
    shown = evaluation_json(judged, scorer, path, resamples=0)["examples"]
    assert sorted(pair["grade"] for pair in shown) == ["1", "3-4 = 3/4", "4"]


def test_levels_have_no_grade_1(scorer_of, pairs_of):
    """The label 0 is read as the first level, and is not left out as the grade 1."""
    path, scorer = pairs_of([f"狗{n // 3}\t猫{n}\t{n % 3}" for n in range(9)]), scorer_of(labels=3)
    judged = judge_file(path, ReaderOptions(), scorer)
    assert {pair.grades for pair in judged.pairs} == {(1,), (2,), (3,)}
    assert evaluation_json(judged, scorer, path, resamples=0)["without_grade_1"] == {}


def test_an_unknown_slice_column_names_those_there_are(scorer_of, pair_file):
    scorer = scorer_of()
    judged = judge_file(pair_file, ReaderOptions(), scorer)
    with pytest.raises(ArgumentError, match="no column 'field'; there are grade"):
        evaluation_json(judged, scorer, pair_file, by=("field",), resamples=10)


@pytest.mark.parametrize(("labels", "expected"), [(5, "expected_grade"), (3, "expected_level")])
def test_errors_come_furthest_off_first(scorer_of, pairs_of, labels, expected):
    rows = [f"狗{n}\t猫追狗\t{1 + n % 2}\t{n}" for n in range(8)]
    path = pairs_of(rows, "query\ttitle\tgrade\tline")
    scorer = scorer_of(labels=labels)
    judged = judge_file(path, ReaderOptions(), scorer)
    table = error_table(judged, scorer, path, ReaderOptions())
    signed = np.array(table[expected]) - np.array(table["grade"], float)
    assert (np.diff(np.abs(signed)) <= 1e-6).all()
    assert table["error"] == pytest.approx(signed.tolist(), abs=1e-5)
    assert table["line"] == [int(line) + 2 for line in table["input_line"]]


def test_automatic_slices_find_where_a_model_errs(scorer_of, pairs_of):
    def right_without_questions(query, title):
        grade = int(title[2:]) + 1
        return 9.0 * np.eye(5)[min(grade, 4) if "怎么" in query else grade - 1]

    scorer = FixedLogits(scorer_of(), right_without_questions)
    texts = [
        f"怎么买票{chr(19968 + n)}{n}" if n % 2 == 0 else f"高铁票{chr(19968 + n)}"
        for n in range(60)
    ]
    path = pairs_of([f"{query}\t上海{t}\t{t + 1}" for query in texts for t in (0, 2, 4)])
    judged = judge_file(path, ReaderOptions(), scorer)
    evaluation = evaluation_json(judged, scorer, path, auto_slices=True, resamples=200)
    slices = evaluation["auto_slices"]
    worst = {row["slice"]: row for row in slices}["question word"]
    assert (worst["n"], worst["n_queries"], worst["outside"]) == (90, 30, 0)
    assert worst["inside"] == pytest.approx(2 / 3) and worst["q"] < 0.01 and worst["ci_low"] > 0.5
    changes = [row["difference"] for row in slices]
    assert changes == sorted(changes, reverse=True) and changes[-1] < 0


@pytest.mark.parametrize("labels", [5, 1])
def test_queries_come_in_the_order_of_their_possible_gain(scorer_of, pairs_of, labels):
    rows = ["甲\ta\t5", "甲\tb\t1", "乙\tc\t5", "乙\td\t1", "丙\te\t3", "丁\tf\t2"]
    grades = {"a": 5, "b": 1, "c": 2, "d": 4, "e": 3, "f": 3}

    def logits(query, title):
        return [grades[title]] if labels == 1 else 9.0 * np.eye(5)[grades[title] - 1]

    scorer = FixedLogits(scorer_of(labels=labels), logits)
    table = query_table(judge_file(pairs_of(rows), ReaderOptions(), scorer))
    assert table["query"][0] == "乙" and table["titles"][0] == 2
    ndcg = (15 / np.log2(3)) / 15
    assert table["ndcg_at_5"][0] == pytest.approx(ndcg)
    assert table["gain"][0] == pytest.approx((1 - ndcg) / 2)
    assert (table["over_graded_title"][0], table["under_graded_title"][0]) == ("d", "c")
    assert (table["over_graded"][0], table["under_graded"][0]) == (1, 1)
    assert table["gain"][1:] == [0, 0, 0] and table["ndcg_at_5"][2:] == ["", ""]
    if labels == 5:
        assert (table["over_graded_title"][3], table["under_graded_title"][3]) == ("f", "")


def test_one_logit_is_compared_with_grades_by_order_alone(scorer_of, pair_file):
    a, b = scorer_of(), scorer_of(labels=1)
    metrics = compare_models(pair_file, ReaderOptions(), [a], [b])["metrics"]
    assert metrics["ndcg_at_5"]["difference"] is not None
    assert metrics["ndcg_at_5"]["p"] is not None
    counts = [metrics["ndcg_at_5"][name] for name in ("n_eligible", "n_queries")]
    assert counts == [2, 5] and "n_eligible" not in metrics["spearman"]
    assert metrics["accuracy"]["difference"] is None and metrics["accuracy"]["reason"]


def test_coarse_labels_do_not_fit_levels(scorer_of, pair_file):
    scorer = scorer_of(labels=3)
    options = ReaderOptions(grades="1=1-2,2=1-2,3=3,4=4-5,5=4-5")
    with pytest.raises(ArgumentError, match="by --model-grades"):
        judge_file(pair_file, options, scorer)


def test_levels_and_grades_are_not_compared(scorer_of, pair_file):
    a, b = scorer_of(), scorer_of(labels=3)
    with pytest.raises(ArgumentError, match="outputs of different kinds"):
        compare_models(pair_file, ReaderOptions(), [a], [b])


def test_cutoffs_act_on_the_scale_they_were_fitted_on():
    logits = np.log([[0.2, 0.3, 0.5]])  # 2.3 on the scale 1 … 3, 1.3 on 0 … 2
    labels = ModelLabels(3, None)
    assert read_outputs(logits, labels, Calibration(1.0, (1.5, 2.2))).predicted == ["2"]
    assert judge_logits(logits, [pair(2)], labels, Calibration(1.0, (1.5, 2.2))).predicted == [2]
    beyond = Calibration(1.0, (1.5, 2.2, 3.1))
    for read in (read_outputs, lambda *of: judge_logits(of[0], [pair(2)], *of[1:])):
        with pytest.raises(ArgumentError, match="run qt-bert calibrate again"):
            read(logits, labels, beyond)


def test_a_limit_takes_whole_queries_in_file_order(pairs_of):
    path = pairs_of([f"查询{n % 10}\t标题{n}\t{n % 5 + 1}" for n in range(40)])
    every, _ = graded_pairs(path, ReaderOptions(), FIVE)
    some, _ = graded_pairs(path, ReaderOptions(limit=10), FIVE)
    assert len(every) == 40 and len(some) == 12, "three queries of four pairs"
    queries = {pair.query for pair in some}
    assert some == [pair for pair in every if pair.query in queries]


NUMBERS = ("0.37", "4", "2.5", "3.0", "7", "-1e-1")


@pytest.mark.parametrize("labels", [1, 5, 3])
def test_decimal_labels_are_judged_by_their_order(scorer_of, pairs_of, tmp_path, labels):
    rows = [f"狗{i // 2}\t猫{i}\t{label}" for i, label in enumerate(NUMBERS)]
    rows += ["狗\t猫\tgood", "狗\t猫\t3-4", "狗\t猫\tnan", "狗\t猫\t"]
    path, scorer = pairs_of(rows), scorer_of(labels=labels)
    listed = tmp_path / "rejects.tsv"
    judged = judge_file(path, ReaderOptions(), scorer, rejects_path=listed)
    assert judged.judgements.mode == "numbers" and judged.rejected == 4
    shown = [line.split("\t")[:2] for line in listed.read_text("utf-8").splitlines()[1:]]
    assert shown == [*([line, "bad grade"] for line in ("8", "9", "10")), ["11", "missing grade"]]
    ranked = read_outputs(judged.logits, scorer.settings.labels).ranking_score
    assert judged.judgements.ranking_score.tolist() == ranked.tolist()
    evaluation = evaluation_json(judged, scorer, path, resamples=50)
    assert evaluation["metrics"]["spearman"]["value"] is not None and evaluation["levels"] == []
    assert evaluation["outputs"] == {1: [], 5: list("12345"), 3: list("012")}[labels]
    assert "numbers" in evaluation["metrics"]["accuracy"]["reason"] and query_table(judged)["query"]
    compared = compare_models(path, ReaderOptions(), [scorer], [scorer])
    assert compared["metrics"]["pairwise_accuracy"]["difference"] == 0


@pytest.mark.parametrize(
    ("decimals", "grades", "mode"),
    [(1, None, "grades"), (3, None, "numbers"), (3, "1=1,2=2", "grades")],
)
def test_a_few_decimals_among_grades_are_rejects(scorer_of, pairs_of, decimals, grades, mode):
    rows = [f"狗{i // 2}\t猫{i}\t{1 + i % 2}" for i in range(199)] + ["狗\t猫\t2.5"] * decimals
    judged = judge_file(pairs_of(rows), ReaderOptions(grades=grades), scorer_of())
    assert (judged.judgements.mode == "numbers") == (mode == "numbers")
    assert judged.rejected == (0 if mode == "numbers" else decimals)


def test_lists_of_titles_are_judged_as_relevant_or_not(scorer_of, write):
    path = write("p.jsonl", '{"query": "狗", "pos": ["猫"], "neg": ["狗", "猫狗"]}\n' * 3)
    judged = judge_file(path, ReaderOptions(), scorer_of())
    assert judged.judgements.levels == ("1-3", "4-5") and len(judged.pairs) == 9
    ranked = judge_file(path, ReaderOptions(), scorer_of(labels=1))
    assert ranked.judgements.ranking_truth.tolist() == [2.0, 1.0, 1.0] * 3
