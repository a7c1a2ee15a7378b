import numpy as np
import pytest

import qt_bert
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.scoring.column import ColumnScorer
from qt_bert.scoring.evaluate import evaluation_json
from qt_bert.scoring.few_labels import suspects
from qt_bert.scoring.judge import judge_file, read_outputs, requested_calibration
from tests.conftest import write_pairs

ROWS = (
    ("狗", "猫", 2, 0.5, 1),
    ("狗", "狗", 5, 0.9, 4),
    ("羊", "牛", 1, -3, 2),
    ("羊", "羊", 4, 0, 5),
)


@pytest.fixture
def log(tmp_path):
    """Two queries of two titles; `score` orders both right, `llm` grades one of four right."""
    return write_pairs(tmp_path / "log.tsv", ROWS, "score", "llm")


@pytest.fixture
def column(log):
    return lambda name, file=log, **how: ColumnScorer(file, name, ReaderOptions(), **how)


def test_a_column_ranks_and_one_read_as_grades_is_judged(log, column):
    judged = judge_file(log, ReaderOptions(), column("score")).judgements
    assert judged.mode == "score" and judged.ranking_score.tolist() == [0.5, 0.9, -3, 0]
    grades = column("llm", model_grades="1=1,2=2,3=3,4=4,5=5")
    judged = judge_file(log, ReaderOptions(), grades).judgements
    assert judged.mode == "grades" and judged.predicted.tolist() == [0, 3, 1, 4]
    assert judged.correct.tolist() == [False] * 4
    with pytest.raises(ArgumentError, match="--suspects: a one-logit model"):
        ranked = judge_file(log, ReaderOptions(), column("score"))
        suspects(ranked, column("score"), log, ReaderOptions(), None)
    hints = ["as grades" in "".join(c.notes()) for c in (column("llm"), column("score"), grades)]
    assert hints == [True, False, False]


def test_probabilities_of_grades(write, column):
    rows = "狗\t猫\t.1\t.2\t.3\t.4\t0\n狗\t狗\t0\t0\t0\t.005\t.99\n"  # rounded sums are scaled to 1
    path = write("p.tsv", "query\ttitle\tp_1\tp_2\tp_3\tp_4\tp_5\n" + rows)
    scorer = column("p_1,p_2,p_3,p_4,p_5", path)
    outputs = read_outputs(scorer.logits([("狗", "狗"), ("狗", "猫")]), scorer.settings.labels)
    assert outputs.predicted == ["5", "4"]
    np.testing.assert_allclose(outputs.expected, [5 - 0.005 / 0.995, 3.0], atol=1e-4)
    coarse = column("p_1,p_2,p_3,p_4,p_5", path, model_grades="0=5,1=4,2=3,3=2,4=1")
    np.testing.assert_allclose(
        read_outputs(coarse.logits([("狗", "猫")]), coarse.settings.labels).expected, 3.0, atol=1e-4
    )


@pytest.mark.parametrize(
    ("of", "cell", "grades", "words"),
    [
        ("score", "nan", None, "line 3: score is 'nan', no finite number.*; so in 1 of 2"),
        ("score", "1e999", None, "line 3"),
        ("score", "高", None, "line 3.*'高'"),
        ("score", "6", "1=1,2=2,3=3", "line 3: score is '6', no label of --model-grades"),
        ("score,b", ".5", None, "line 3: score,b is '.5, .6', no probabilities"),
    ],
)
def test_a_cell_that_is_no_score_has_its_line(write, column, of, cell, grades, words):
    path = write("s.tsv", f"query\ttitle\tscore\tb\na\tb\t1\t0\nc\td\t{cell}\t.6\n")
    with pytest.raises(PairFileError, match=words):
        column(of, path, model_grades=grades)


def test_equal_numbers_of_a_pair_are_one_score(write, column):
    rows = "q\tt\t0.5\nq\tt\t0.50\nq\tt\t5e-1\n"
    path = write("s.tsv", f"query\ttitle\tscore\n{rows}")
    assert column("score", path).logits([("q", "t")]).tolist() == [[0.5]]
    path = write("s.tsv", f"query\ttitle\tscore\n{rows}q\tt\t0.51\n")
    with pytest.raises(PairFileError, match="1 rows repeat .* lines 2 and 5"):
        column("score", path)


@pytest.mark.parametrize(
    "cells", [".19 .1 .01 .01 .71", ".015 .015 .015 .015 .915", ".08 .02 .33 .1 .42 .08"]
)
def test_probabilities_may_be_rounded_to_two_digits(write, column, cells):
    names, row = "abcdef"[: len(cells.split())], "\t".join(cells.split())
    path = write("s.tsv", "\t".join(["query", "title", *names]) + f"\nq\tt\t{row}\n")
    (logits,) = column(",".join(names), path).logits([("q", "t")])
    assert np.exp(logits) == pytest.approx([float(cell) for cell in cells.split()])


def test_equal_expectations_tie(write, column):
    rows = np.random.default_rng(0).multinomial(100, [0.3, 0.4, 0.3], 60)
    lines = [f"q\t{n}\t" + "\t".join(f"{p / 100:.2f}" for p in row) for n, row in enumerate(rows)]
    path = write("s.tsv", "\n".join(["query\ttitle\ta\tb\tc", *lines]) + "\n")
    scorer = column("a,b,c", path)
    scores = read_outputs(scorer.logits([("q", str(n)) for n in range(60)]), scorer.settings.labels)
    sums = rows @ [0, 1, 2]
    assert len(np.unique(scores.ranking_score)) == len(np.unique(sums)) < 40


def test_pairs_and_scores_without_a_partner_are_counted(log, column, write, tmp_path):
    path = write("s.tsv", "query\ttitle\tscore\n狗\t猫\t1\n羊\t羊\t2\n马\t马\t9\n\t\t\n")
    scorer, listed = column("score", path), tmp_path / "r"
    judged = judge_file(log, ReaderOptions(), scorer, rejects_path=listed)
    assert [pair.line for pair in judged.pairs] == [2, 5] and judged.rejected == 2
    assert "3\tno score in s.tsv:score\t狗 狗" in listed.read_text("utf-8")
    assert list(scorer.notes()) == [
        "s.tsv:score: pairs without a score: 2; scores without a pair: 1; rows that are no pairs: 1"
    ]
    with pytest.raises(ArgumentError, match="no score for '马' / '牛'"):
        scorer.logits([("马", "牛")])


def test_a_baseline_judges_the_same_pairs(log, column, write):
    path = write("s.tsv", "query\ttitle\tscore\n狗\t猫\t3\n狗\t狗\t2\n羊\t羊\t2\n羊\t牛\t1\n")
    first, model = column("score", path), column("score")
    judged = judge_file(log, ReaderOptions(), model, others=[first])
    result = evaluation_json(judged, model, log, baseline=first, resamples=20)
    metric = result["baseline"]["metrics"]["pairwise_accuracy"]
    assert (metric["value_a"], metric["value_b"], metric["difference"]) == (0.5, 1.0, 0.5)


@pytest.fixture
def graded(tmp_path):
    """`graded(name)`: 60 queries of three titles with noisy scores."""
    rng = np.random.default_rng(0)

    def to_file(name, noise=1.0):
        rows = [
            (f"q{n // 3}", f"t{n}", n % 5 + 1, n % 5 + rng.normal(0, noise)) for n in range(180)
        ]
        return write_pairs(tmp_path / name, rows, "score")

    return to_file


def test_python_evaluates_compares_and_calibrates_a_column(graded, tmp_path):
    dev, test = graded("dev.tsv"), graded("test.tsv", 3.0)
    scorer, worse = qt_bert.load(f"{dev}:score"), qt_bert.load(f"{test}:score")
    assert scorer.evaluate(dev, baseline=worse)["baseline"]["metrics"]["spearman"]["difference"] > 0
    assert scorer.compare(worse, dev)["metrics"]["spearman"]["difference"] < 0
    few = scorer.evaluate(dev, labels="grade", judge=f"{test}:grade")["few_labels"]
    assert few["labels"] == 180 and "0 of the judge alone" in few["metrics"]["spearman"]["reason"]
    cal = tmp_path / "cal.json"
    scorer.calibrate(dev, out=cal, resamples=20)
    # The column of another file is the same scorer; another column is not.
    assert worse.evaluate(test, calibrated=cal)["metrics"]["qwk"]["value"] > 0
    with pytest.raises(ArgumentError, match="run qt-bert calibrate again"):
        requested_calibration(ColumnScorer(dev, "grade", ReaderOptions()), cal)
    with pytest.raises(ArgumentError, match="gives scores alone"):
        scorer.explain("q0", "t0")
    with pytest.raises(ArgumentError, match="--save"):
        scorer.calibrate(dev, save=True)
