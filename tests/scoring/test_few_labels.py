"""`evaluate` and `compare` with few labels: weights, drawn labels, a judge, suspects, files for trec_eval."""

from types import SimpleNamespace

import numpy as np
import pytest
from ir_measures import AP, RR, calc_aggregate, read_trec_qrels, read_trec_run

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.card import ModelLabels
from qt_bert.request import LabelOptions
from qt_bert.scoring.column import ColumnScorer
from qt_bert.scoring.evaluate import compare_models, mismatches, write_trec
from qt_bert.scoring.few_labels import draw_next, suspects, with_judge
from qt_bert.scoring.judge import TextScorer, judge_file
from qt_bert.stats.metrics import METRICS
from tests.conftest import FIVE


class Titles(TextScorer):
    """A scorer that is sure of the grade at the end of each title."""

    name, left_out, tokenizer = "titles", None, None
    settings = SimpleNamespace(labels=FIVE)

    def __init__(self, off=0):
        self._off = off

    def describe(self):
        return {"name": self.name, "sha256": ""}

    def logits(self, pairs, shown=None):
        grades = np.array([int(title[-1]) for _, title in pairs])
        return 3.0 * np.eye(5)[np.clip(grades + self._off, 1, 5) - 1]


@pytest.fixture
def file(write):
    """`file(rows, header=)`: a TSV of rows of cells."""

    def to_file(rows, header=("query", "title", "grade")):
        return write("p.tsv", "".join("\t".join(map(str, row)) + "\n" for row in (header, *rows)))

    return to_file


def judged(path, **options):
    count = LabelOptions(**options)
    return judge_file(path, count.read_by(ReaderOptions()), Titles(), count=count)


def test_a_weight_belongs_to_a_query(file):
    header = ("query", "title", "grade", "pv")
    rows = [("猫", "a5", 5, 3), ("猫", "b1", 2, 3), ("狗", "c4", 4, "1.0")]
    result = judged(file(rows, header), weights="pv").judgements
    assert result.weights.tolist() == [3, 1]
    assert METRICS["accuracy"].value(result) == pytest.approx(4 / 7)
    for cell in ("2", "x", "0", "", "-1", "1e999"):
        path = file([*rows, ("猫", "d1", 1, cell)], header)
        with pytest.raises(PairFileError, match=r"p\.tsv, line 5: pv is"):
            judged(path, weights="pv")
    with pytest.raises(ArgumentError, match="--relevant 6: no label of"):
        judged(file(rows, header), relevant=6)


def test_titles_without_a_label_take_places(file):
    path = file([("猫", "a3", 5), ("猫", "b5", ""), ("猫", "c4", 2), ("狗", "d5", "")])
    assert judge_file(path, ReaderOptions(), Titles()).rejected == 2
    result = judged(path, unjudged=True)
    assert [pair.title for pair in result.everything[0][2:]] == ["b5", "d5"]
    assert result.judgements.unjudged.tolist() == [[1, 0], [1, 0]]
    assert METRICS["mrr_at_10"].value(result.judgements) == pytest.approx(1 / 3)
    assert judged(path, unjudged=True, relevant=2).judgements.auc_cut == 2
    assert METRICS["mrr_at_10"].value(judged(path, unjudged=True, relevant=2).judgements) == 1 / 2
    path = file(
        [("猫", "a3", ""), ("猫", "b3", 5), ("猫", "c3", ""), ("狗", "d3", ""), ("猫", "e1", 4)]
    )
    result = judged(path, unjudged=True).judgements
    assert result.unjudged.tolist() == [[0, 2], [2, 0]]
    # The relevant title that ties with two others is at 1, 2 or 3, the other one at 4.
    assert METRICS["mrr_at_10"].value(result) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert METRICS["map"].value(result) == pytest.approx((11 / 18 + 2 / 4) / 2)


class Two(Titles):
    """The same with an output for 1 to 3 and for 4 and 5, of unknown grades."""

    settings = SimpleNamespace(labels=ModelLabels(2, None))

    def logits(self, pairs, shown=None):
        return 3.0 * np.eye(2)[super().logits(pairs).argmax(axis=1) // 3]


def test_relevant_is_a_level_where_the_labels_are_pos_and_neg(file):
    path = file([("猫", "a5", "neg"), ("猫", "b4", "pos"), ("狗", "c1", "neg")])
    result = judge_file(path, ReaderOptions(), Two(), count=LabelOptions(relevant=1)).judgements
    assert result.auc_cut == 2 and METRICS["mrr_at_10"].value(result) == pytest.approx(0.75 / 2)


def test_files_for_trec_eval_give_the_same_figures(file, tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (f"查询 {n % 9}", f"标题{n}_{rng.integers(1, 6)}", "" if n % 5 == 0 else n % 4 + 2)
        for n in range(60)
    ]
    result = judged(file(rows), unjudged=True)
    scorer = Titles()
    scores = result.everything[1] + np.arange(60)[:, None] * 1e-3 * np.arange(5)
    scorer.logits = lambda pairs, shown=None: scores
    path = tmp_path / "p.tsv"
    result = judge_file(path, ReaderOptions(), scorer, count=LabelOptions(unjudged=True))
    write_trec(tmp_path / "trec", result, scorer)
    qrels = list(read_trec_qrels(str(tmp_path / "trec/qrels.txt")))
    run = list(read_trec_run(str(tmp_path / "trec/run.txt")))
    assert len(qrels) == 48 and len(run) == 60
    values = calc_aggregate([RR(rel=4) @ 10, AP(rel=4)], qrels, run)
    for name, measure in (("mrr_at_10", RR(rel=4) @ 10), ("map", AP(rel=4))):
        assert METRICS[name].value(result.judgements) == pytest.approx(values[measure], abs=1e-9)


def test_for_trec_eval_a_set_of_grades_is_its_lowest_and_a_title_its_line(file, tmp_path):
    rows = [("x", "查询", f"标题{n}_3", label) for n, label in enumerate(["", "0", "1", "2"])]
    path = file(rows, ("id", "query", "title", "grade"))
    count = LabelOptions(unjudged=True)
    result = judge_file(path, ReaderOptions(grades="0=1-2,1=3-4,2=5"), Titles(), count=count)
    assert result.judgements.auc_cut == 3  # the third level, which is grade 5
    scorer = Titles()
    scorer.name = "我的\u3000模型 2"
    assert write_trec(tmp_path / "trec", result, scorer) == 5
    run = [line.split() for line in (tmp_path / "trec/run.txt").open(encoding="utf-8")]
    assert [row[5:] for row in run] == [["我的_模型_2"]] * 4
    qrels = [line.split()[2:] for line in (tmp_path / "trec/qrels.txt").open(encoding="utf-8")]
    assert qrels == [["3", "1"], ["4", "3"], ["5", "5"]]
    numbers = judged(file([("查询", f"标题{n}_3", n / 4) for n in range(4)]))
    with pytest.raises(ArgumentError, match="--trec: the labels are numbers"):
        write_trec(tmp_path / "numbers", numbers, Titles())


def few_rows(seed, labelled, *, queries=120):
    """Rows of two titles a query, the judge right in three quarters; people's labels where `labelled(query)`."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(queries):
        for title in range(2):
            truth = int(rng.integers(1, 6))
            judge = truth if rng.random() < 0.75 else min(truth + 1, 5)
            shown = truth if rng.random() < 0.6 else int(rng.integers(1, 6))
            rows.append(
                (f"q{query}", f"{query}_{title}_{shown}", truth if labelled(query) else "", judge)
            )
    return rows


HEADER = ("query", "title", "人工", "llm")
OPTIONS = LabelOptions(labels="人工", judge="llm")
READER = OPTIONS.read_by(ReaderOptions())


def test_peoples_labels_stand_in_place_of_the_files():
    reader = OPTIONS.read_by(ReaderOptions("query=q, grade=label"))
    assert (READER.columns, reader.columns) == ("grade=人工", "query=q,grade=人工")
    assert LabelOptions().read_by(reader) == reader


def few_labels(path, options=OPTIONS, scorer=None, **how):
    """Figures by people's labels and a judge's."""
    scorer = scorer or Titles()
    result = judge_file(path, READER, scorer, count=options)
    return with_judge([result], [scorer], path, READER, options, **how)


def test_a_judge_narrows_what_few_labels_say(file):
    path = file(few_rows(0, lambda query: query % 4 == 0), HEADER)
    few = few_labels(path, detect=0.3)
    counts = [few[name] for name in ("labels", "n_queries", "judged_pairs", "judged_queries")]
    assert counts == [60, 30, 180, 90]
    accuracy = few["metrics"]["accuracy"]
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    both = [(title[-1], people, llm) for _, title, people, llm in rows if people]
    human = np.mean([shown == people for shown, people, _ in both])
    judge = np.mean([shown == llm for shown, _, llm in both])
    rest = np.mean([title[-1] == llm for _, title, people, llm in rows if not people])
    assert accuracy["people"]["value"] == pytest.approx(human)
    assert accuracy["value"] == pytest.approx(human + 90 / 120 * (rest - judge))
    qwk = few["metrics"]["qwk"]
    assert qwk["worth"] > qwk["labels"] == 60 and qwk["needs"] < qwk["needs_alone"]
    assert few["metrics"]["ndcg_at_5"]["value"] is not None
    assert max(metric["worth"] for metric in few["metrics"].values()) <= 60 + 180
    models = [Titles()], [Titles(-1)]
    compared = compare_models(path, ReaderOptions(), *models, count=OPTIONS, detect=0.05)
    change, whole = compared["few_labels"]["metrics"]["accuracy"], compared["metrics"]["accuracy"]
    assert change["value"] < 0
    assert change["people"]["value"] == pytest.approx(whole["difference"])
    assert whole["labels"] == pytest.approx(2 * whole["queries"], abs=2)


class Thirds(Titles):
    """The same with an output for 1-2, for 3-4 and for 5."""

    settings = SimpleNamespace(labels=ModelLabels(3, ((1, 2), (3, 4), (5,))))

    def logits(self, pairs, shown=None):
        return 3.0 * np.eye(3)[super().logits(pairs).argmax(axis=1) // 2]


def test_models_of_other_levels_are_compared_by_order_alone(file):
    path = file(few_rows(0, lambda query: query % 4 == 0), HEADER)
    compared = compare_models(path, ReaderOptions(), [Titles()], [Thirds()], count=OPTIONS)
    metrics = compared["few_labels"]["metrics"]
    for name in ("accuracy", "qwk"):
        assert metrics[name]["value"] is None and "different levels" in metrics[name]["reason"]
    assert metrics["spearman"]["value"] is not None


def test_ranking_takes_queries_whose_titles_are_all_labelled(file):
    rows = few_rows(1, lambda query: query % 3 == 0)
    rows = [(q, t, "" if t.startswith("0_0_") else label, j) for q, t, label, j in rows]
    metrics = few_labels(file(rows, HEADER), resamples=50)["metrics"]
    assert (metrics["accuracy"]["labels"], metrics["accuracy"]["n_queries"]) == (79, 40)
    assert (metrics["ndcg_at_5"]["labels"], metrics["ndcg_at_5"]["n_queries"]) == (78, 39)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ("llm", None),
        ("no", "no column 'no'; there are grade, llm"),
        ("empty", "no pair has a label of --judge empty"),
    ],
)
def test_too_few_labels_and_missing_columns(file, judge, message):
    path = file([(*row, "") for row in few_rows(2, lambda q: q < 15)], (*HEADER, "empty"))
    options = LabelOptions(labels="人工", judge=judge)
    if message:
        with pytest.raises(ArgumentError, match=message):
            few_labels(path, options)
    else:
        reason = few_labels(path, options)["metrics"]["qwk"]["reason"]
        assert "15 queries have labels of both, 105" in reason


def test_a_judge_goes_with_labels_and_gives_grades(file):
    for labels, message in ((None, "--labels"), ("llm", "same column")):
        with pytest.raises(ArgumentError, match=message):
            LabelOptions(labels=labels, judge="llm")
    rows = [*few_rows(3, lambda q: q % 3 == 0), ("q", "t1", "", "N/A")]
    with pytest.raises(PairFileError, match=r"p\.tsv, line 242: llm: the label 'N/A'.*in 1 row"):
        few_labels(file(rows, HEADER))


def test_a_judge_gives_the_levels_of_a_model_without_grades(file):
    rows = few_rows(7, lambda query: query % 3 == 0)
    header = (*HEADER, *(f"p_{level}" for level in range(6)))
    path = file([(*row, *np.eye(6, dtype=int)[int(row[1][-1])]) for row in rows], header)
    scorer = ColumnScorer(path, ",".join(header[4:]), ReaderOptions())  # levels 0 to 5
    accuracy = few_labels(path, scorer=scorer)["metrics"]["accuracy"]
    right = [int(title[-1]) == llm for _, title, people, llm in rows if people == ""]
    assert accuracy["judge"] == pytest.approx(np.mean(right))
    result = judge_file(path, READER, scorer, count=OPTIONS)
    listed = suspects(result, scorer, path, READER, "llm")
    confirmed = np.array(listed["人工"]) == np.array(listed["llm"])
    assert (np.diff(confirmed.astype(int)) >= 0).all() and 0 < confirmed.sum() < len(confirmed)


def test_decimal_labels_beside_a_judges_grades_are_judged_by_order(file):
    rows = few_rows(8, lambda query: query % 3 == 0)
    decimals = [(q, t, people and people + 0.5, llm) for q, t, people, llm in rows]
    whole, ranked = (few_labels(file(r, HEADER), resamples=50)["metrics"] for r in (rows, decimals))
    assert "numbers" in ranked["accuracy"]["reason"]
    for name in ("spearman", "pairwise_accuracy"):
        assert ranked[name]["value"] == pytest.approx(whole[name]["value"])


def test_picked_labels_are_refused(file):
    rows = few_rows(4, lambda query: False, queries=400)
    agree = {r[0] for r in rows} - {r[0] for r in rows if r[1][-1] != str(r[3])}
    path = file([(q, t, t[-1] if q not in agree else "", j) for q, t, _, j in rows], HEADER)
    with pytest.raises(ArgumentError, match="not drawn evenly.* are 1 where people labelled"):
        few_labels(path)


@pytest.mark.parametrize(("columns", "labels"), [("score", (1, 2, 3, 4, 5)), ("p_0,p_1", (0, 1))])
def test_picked_labels_are_refused_on_any_scale(file, columns, labels):
    """The judge follows the model in every second query, and turns its order round in the others: those that
    people labelled differ from the rest in nothing else."""
    rng, rows = np.random.default_rng(0), []
    for n in range(400):
        turned, truth = n // 2 % 2, rng.choice(labels)
        shown = labels[0] + labels[-1] - truth if turned else truth
        outputs = shown / 10, float(shown == 0), float(shown == 1)
        rows.append((f"q{n // 2}", f"t{n}", "" if turned else truth, truth, *outputs))
    path = file(rows, (*HEADER, "score", "p_0", "p_1"))
    scorer = ColumnScorer(path, columns, ReaderOptions())
    with pytest.raises(ArgumentError, match="not drawn evenly"):
        few_labels(path, scorer=scorer)


def test_the_next_labels_are_drawn_with_a_chance(file, tmp_path):
    rows = few_rows(5, lambda query: False, queries=300)
    rows = [(*row, row[1][-1]) for row in rows]
    path = file(rows, (*HEADER, "predicted_grade"))
    raters = ["人工", "llm", "predicted_grade"]
    counts, table = draw_next(path, raters, ReaderOptions(), 100, seed=1)
    assert abs(counts["pairs"] - 100) <= 8 and counts["rows"] == 600 == len(table["query"])
    first = table["query"][: counts["pairs"]]
    assert len(set(first)) == counts["queries"]
    assert not set(first) & set(table["query"][counts["pairs"] :])
    chance = dict(zip(table["query"], table["drawn_p"], strict=True))
    assert sum(chance.values()) == pytest.approx(50, abs=1)
    doubted = {row[0] for row in rows if abs(row[3] - int(row[4])) > 1}
    agreed = set(chance) - doubted
    of_doubted, of_agreed = ([chance[q] for q in queries] for queries in (doubted, agreed))
    assert np.mean(of_doubted) > 1.2 * np.mean(of_agreed) and min(of_agreed) > 0
    # the first rows labelled, the file evaluates, weighted; a second draw counts the first
    truth = {row[1]: str(n % 5 + 1) for n, row in enumerate(rows)}
    table["人工"] = [
        truth[t] if q in set(first) else ""
        for q, t in zip(table["query"], table["title"], strict=True)
    ]
    names = ["query", "title", "人工", "llm", "predicted_grade", "drawn_p"]
    drawn = file(list(zip(*(table[name] for name in names), strict=True)), names)
    weights = judge_file(drawn, READER, Titles(), count=OPTIONS).judgements.weights
    assert sorted(weights) == pytest.approx(sorted(1 / chance[q] for q in set(first)))
    assert few_labels(drawn, resamples=50)["metrics"]["accuracy"]["ci_low"] is not None
    _, again = draw_next(drawn, raters, ReaderOptions(), 100, seed=2)
    later = dict(zip(again["query"], again["drawn_p"], strict=True))
    assert all(later[q] > chance[q] for q in chance)
    assert not set(again["query"][:90]) & set(first)
    lines = drawn.read_text("utf-8").splitlines()
    for chance in ("", "1.5"):
        lines[3] = "\t".join([*lines[3].split("\t")[:-1], chance])
        drawn.write_text("\n".join(lines) + "\n", "utf-8")
        with pytest.raises(PairFileError, match=f"line 4: drawn_p is '{chance}'.*picked"):
            judge_file(drawn, READER, Titles(), count=OPTIONS)


@pytest.mark.parametrize(
    ("n", "raters"),
    [(0, ["人工", "llm"]), (241, ["人工", "llm"]), (5, ["人工", "no"]), (5, ["llm", "人工"])],
)
def test_what_cannot_be_drawn_is_refused(file, n, raters):
    path = file(few_rows(6, lambda query: False), HEADER)
    with pytest.raises(ArgumentError, match="--next|no column 'no'"):  # 人工 is empty
        draw_next(path, raters, ReaderOptions(), n)


def test_labels_that_the_model_contradicts_are_suspect(file):
    rows = [(f"q{n}", f"t{n % 5 + 1}", n % 5 + 1, n % 5 + 1) for n in range(50)]
    rows[7], rows[11] = ("q7", "t3", 1, 3), ("q11", "t2", 5, 5)
    path = file(rows, ("query", "title", "grade", "llm"))
    table = suspects(judged(path), Titles(), path, ReaderOptions(), "llm")
    assert table["line"] == [9, 13]  # the judge confirms the second
    assert table["likely"] == ["3", "2"]
    alone = suspects(judged(path), Titles(), path, ReaderOptions(), None)
    assert sorted(alone["line"]) == [9, 13]


@pytest.mark.parametrize(
    ("query", "title", "slices"),
    [
        ("2023年个税", "2022年个税", {"year unlike the title's"}),
        ("2023年个税", "个税怎么交", {"year not in the title"}),
        (
            "15年iphone",
            "14年Honor",
            {f"{kind} unlike the title's" for kind in ("Latin name", "number")},
        ),
        ("上海到北京高铁", "上海到北京高铁", set()),
        ("上海到北京高铁", "北京到广州高铁", {"place unlike the title's"}),
        ("3.5寸硬盘", "硬盘", {"number not in the title"}),
    ],
)
def test_mismatches_of_query_and_title(query, title, slices):
    result = mismatches([Pair(query, title, (1,), "1", 1, "1", {})])
    assert {name for name, rows in result.items() if rows[0]} == slices
