import numpy as np
import pytest
from scipy.stats import beta

import qt_bert
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.models.card import store_calibration
from qt_bert.request import LabelOptions
from qt_bert.scoring.column import ColumnScorer
from qt_bert.scoring.unlabelled import compare_unlabelled
from tests.conftest import write_pairs

GRADES = "1=1,2=2,3=3,4=4,5=5"


@pytest.fixture
def columns(tmp_path):
    """`columns(rows)`: a file with the columns a, b and field."""
    return lambda rows: write_pairs(tmp_path / "t.tsv", rows, "b", "field", label="a")


@pytest.fixture
def compared(columns):
    """`compared(rows)`: the agreement of the columns a and b."""

    def run(rows, grades=None, **how):
        path = columns(rows)
        scorers = [ColumnScorer(path, c, ReaderOptions(), model_grades=grades) for c in "ab"]
        return compare_unlabelled(path, ReaderOptions(), *scorers, **how)

    return run


# Query: titles by (a, b). p: the same order; q: reversed; r: b ties all three; s: a ties two of them for the
# first place, b takes one; u: one title.
ROWS = [
    *(("p", "1", 5, 4, "x"), ("p", "2", 3, 3, "x"), ("p", "3", 1, 1, "x")),
    *(("q", "1", 2, 4, "x"), ("q", "2", 4, 2, "x")),
    *(("r", "1", 1, 2, "y"), ("r", "2", 2, 2, "y"), ("r", "3", 3, 2, "y")),
    *(("s", "1", 3, 3, "y"), ("s", "2", 3, 1, "y")),
    ("u", "1", 3, 5, "y"),
]


def test_measures_by_hand(compared):
    result = compared([*ROWS, ROWS[0]], GRADES, by=["field"])
    assert (result["n_queries"], result["repeated"], result["rejected"]) == (5, 1, 0)
    values = {name: (m["value"], m["n"], m["n_queries"]) for name, m in result["metrics"].items()}
    # Titles in first place: p 1|1, q 2|1, r 3|123, s 12|1.
    assert values == {
        "first_title": (pytest.approx((0 + 1 + 2 / 3 + 1 / 2) / 4), 4, 4),
        "rank_correlation": (pytest.approx((1 - 1 + 0 + 0) / 4, abs=1e-5), 4, 4),
        "moved_one": (pytest.approx(3 / 11), 11, 5),
        "moved_two": (pytest.approx(4 / 11), 11, 5),
    }
    fields = result["slices"]["field"]
    assert fields["x"]["first_title"]["value"] == 0.5
    assert fields["y"]["moved_two"]["value"] == pytest.approx(2 / 6)
    assert [query["query"] for query in result["queries"]][:2] == ["q", "r"]
    assert [title["title"] for title in result["queries"][0]["titles"]] == ["2", "1"]


def test_scores_have_no_grades_and_one_title_no_order(compared):
    metrics = compared(ROWS)["metrics"]
    assert metrics["moved_one"]["value"] is None and metrics["moved_one"]["reason"]
    metrics = compared([(f"q{n}", "t", n, n, "x") for n in range(30)])["metrics"]
    assert metrics["first_title"]["reason"] == "no query has two titles in an order"


def test_no_change_at_all_has_the_exact_bound(compared):
    rows = [(f"q{n}", t, t, 2 * t, "x") for n in range(50) for t in (1, 2)]
    metrics = compared(rows)["metrics"]
    unseen = 1 - 0.025 ** (1 / 50)  # as scipy.stats.binomtest(0, 50).proportion_ci("exact")
    first, order = metrics["first_title"], metrics["rank_correlation"]
    assert (first["value"], first["ci_low"], first["ci_high"]) == (0, 0, pytest.approx(unseen))
    assert (order["ci_low"], order["ci_high"]) == (pytest.approx(1 - 2 * unseen), pytest.approx(1))


def planted(flipped=0.0):
    """200 queries of four titles; b turns the order of queries with Latin letters round, and of a share."""
    rng = np.random.default_rng(0)
    for n in range(200):
        query = f"{'苹果abc' if n % 5 == 0 else '苹果香蕉'}{'甲乙丙丁'[n % 4] * (n % 7)}{chr(0x4E00 + n)}"
        turned = n % 5 == 0 or rng.random() < flipped
        for t in range(4):
            yield query, "苹果" + chr(0x5000 + n) * (1 + t), t, -t if turned else t, "x"


def test_a_slice_that_alone_flips_comes_first(compared):
    first, *rest = compared(planted())["auto_slices"]
    assert first["slice"] == "Latin letters"
    assert (first["inside"], first["outside"]) in ((1, 0), (-1, 1))
    assert first["q"] < 0.01 and first["n_queries"] == 40
    assert all(row["q"] > 0.05 for row in rest if row["slice"].startswith(("title", "number")))
    assert compared(planted(0.2))["auto_slices"][0]["slice"] == "Latin letters"


@pytest.mark.parametrize(
    ("rules", "failed"),
    [
        ("[agreement]\nfirst_title = 0.3\nrank_correlation = 0.4", []),
        # .2 with an upper end above it, .6 with a lower end below it; no grades.
        ("[agreement]\nfirst_title = 0.2", ["first_title"]),
        ("[agreement]\nrank_correlation = 0.6", ["rank_correlation"]),
        ("[agreement]\nmoved_one = 0.5", ["moved_one"]),
        ("[slices.field.x]\nfirst_title = 0.2", ["first_title, field x"]),
    ],
)
def test_a_gate_limits_the_far_end_of_the_interval(columns, write, rules, failed):
    path, gate = columns(planted()), write("gate.toml", rules)
    a, b = (qt_bert.load(f"{path}:{column}") for column in "ab")
    judged = a.compare(b, unlabelled=path, gate=gate)["gate"]
    assert [rule["what"] for rule in judged["rules"] if rule["reason"]] == failed
    assert judged["passed"] == (not failed)


def test_a_rule_of_the_other_file_and_several_seeds_are_refused(columns, write):
    path = columns([("p", 1, 5, 4, "x")])
    a, b = (qt_bert.load(f"{path}:{column}") for column in "ab")
    with pytest.raises(ArgumentError, match="qwk needs --pairs"):
        a.compare(b, unlabelled=path, gate=write("g.toml", "[metrics]\nqwk = 0.1"))
    with pytest.raises(ArgumentError, match="first_title needs --unlabelled"):
        a.compare(b, path, gate=write("g.toml", "[agreement]\nfirst_title = 0.1"))
    with pytest.raises(ArgumentError, match="not several seeds"):
        a.compare([b, b], unlabelled=path)
    for how in ({"detect": 0.02}, {"count": LabelOptions(relevant=3)}):
        with pytest.raises(ArgumentError, match="--unlabelled alone"):
            a.compare(b, unlabelled=path, **how)


def test_a_mean_of_queries_lies_in_the_exact_interval(compared):
    """3 of 23 first titles change."""
    titles = [(n, t) for n in range(23) for t in (0, 1)]
    rows = [(f"q{n}", str(t), 5 - t, 5 - t if n > 2 else 4 + t, "x") for n, t in titles]
    first = compared(rows)["metrics"]["first_title"]
    exact = beta.ppf(0.025, 3, 21), beta.ppf(0.975, 4, 20)
    assert first["value"] == pytest.approx(3 / 23)
    assert exact[0] - 1e-9 <= first["ci_low"] <= 3 / 23 <= first["ci_high"] <= exact[1] + 1e-9


def test_calibrated_scores_move_grades(compared, fresh_checkpoint, write, pair_file):
    folder = fresh_checkpoint(labels=1)
    stored = {"method": "platt", "grades": [[1, 2, 3], [4, 5]], "curves": [[[1.0], [0.0]]]}
    store_calibration(folder, stored | {"cutoffs": [0.0], "relevant": 1, "cut": 0.0})
    model = qt_bert.load(folder)
    plain, calibrated = (
        model.compare(model, pair_file, unlabelled=pair_file, calibrated=how)
        for how in (False, True)
    )
    assert "qt-bert calibrate" in plain["metrics"]["accuracy"]["reason"]
    assert plain["agreement"]["metrics"]["moved_one"]["value"] is None
    assert calibrated["metrics"]["accuracy"]["value_a"] is not None
    assert calibrated["agreement"]["metrics"]["moved_one"]["value"] == 0
