"""The page Evaluate: files good and bad, the figures of the commands, the work in the background."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from apps.screens import evaluate
from qt_bert.cli import main
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.heads import Head, format_heads
from qt_bert.models.card import ModelLabels
from qt_bert.page.model import SharedModel, SharedScorer
from qt_bert.stats.metrics import REASONS
from tests.apps.conftest import opened, plain, until

Command = Callable[..., Any]
OUT = (Head(0, 1), Head(1, 0))
UPLOADED = (
    "query\ttitle\tgrade\n"
    "怎么去除衣服上的油渍\t衣服沾了油怎么洗掉\t5\n"
    "怎么去除衣服上的油渍\t红烧排骨的家常做法\t1\n"
    "苹果多少钱一斤\t苹果手机多少钱\t2\n"
    "苹果多少钱一斤\t苹果一斤多少钱\t5\n"
    "坏行\n"
).encode()
GRADES = ModelLabels(5, tuple((g,) for g in range(1, 6)))
ONE, THREE = ModelLabels(1, None), ModelLabels(3, None)
PLAIN = ReaderOptions()


def tsv(rows: list[tuple[object, ...]], header: str = "query\ttitle\tgrade") -> bytes:
    return "\n".join([header, *("\t".join(map(str, row)) for row in rows)]).encode() + b"\n"


GOOD = tsv([("甲", "一", 5), ("甲", "二", 1), ("乙", "三", 3)])


def fault(data: bytes, options: ReaderOptions = PLAIN) -> evaluate.FileFault:
    with pytest.raises(evaluate.FileFault) as caught:
        evaluate.read_graded(data, "a.tsv", options, GRADES)
    assert "/tmp" not in caught.value.message.en + caught.value.message.zh
    assert len(caught.value.message.en) < 1000
    return caught.value


def test_a_file_with_rejects():
    bad = GOOD + "丙\t四\t9\n丁\t五\n".encode()
    found = evaluate.read_graded(bad, "a.tsv", PLAIN, GRADES)
    assert [(p.title, p.grades) for p in found.pairs] == [("一", (5,)), ("二", (1,)), ("三", (3,))]
    assert (found.n_pairs, found.rejected, found.unread) == (3, 2, False)
    assert [(r.line, r.reason) for r in found.rejects] == [(5, "bad grade"), (6, "too few fields")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ReaderOptions(columns="query"), "--columns"),
        (ReaderOptions(columns="query=a,title=a"), "--columns"),
        (ReaderOptions(columns="query=nowhere"), "nowhere"),
        (ReaderOptions(columns="q=query"), "--columns"),
        (ReaderOptions(grades="0=7"), "--grades"),
        (ReaderOptions(grades="nonsense"), "--grades"),
        (ReaderOptions(no_header=True, columns="query=q"), "its position"),
    ],
)
def test_an_error_names_its_option(options, message):
    assert message in fault(GOOD, options).message.en


def test_a_file_without_labels_or_lines_gets_a_message():
    assert "--columns" in fault(tsv([("甲", "一")], "query\ttitle")).message.en
    fault(b"x" * 100_000 + b"\t" + b"x" * 100_000 + b"\n")


def test_labels_that_are_no_grades():
    found = fault(tsv([("甲", "一", "good")] * 3))
    assert "--grades" in found.message.en
    assert [reject.reason for reject in found.rejects] == ["bad grade"] * 3


def test_levels_of_a_model_that_has_no_grades():
    data = tsv([("甲", "一", 0), ("甲", "二", 2)])
    assert [p.grades for p in evaluate.read_graded(data, "a.tsv", PLAIN, THREE).pairs] == [
        (1,),
        (3,),
    ]
    with pytest.raises(evaluate.FileFault, match="--grades"):
        evaluate.read_graded(data, "a.tsv", ReaderOptions(grades="0=1-2,2=3"), THREE)


def pairs(sizes: list[int]) -> list[Pair]:
    return [
        Pair(f"q{query}", f"t{n}", (1,), "1", 1, "1", {})
        for query, size in enumerate(sizes)
        for n in range(size)
    ]


def test_a_draw_takes_whole_queries_up_to_its_limit(monkeypatch):
    monkeypatch.setattr(evaluate, "MOST_PAIRS", 100)
    sizes = [3, 5, 2, 4, 5, 1] * 20
    found = evaluate.draw_pairs(pairs(sizes), seed=1)
    counts = Counter(pair.query for pair in found)
    assert 90 < len(found) <= 100
    assert all(counts[query] == sizes[int(query[1:])] for query in counts)
    assert found == [pair for pair in pairs(sizes) if pair.query in counts]
    assert evaluate.draw_pairs(pairs(sizes), seed=1) == found
    assert evaluate.draw_pairs(pairs(sizes), seed=2) != found
    large = evaluate.draw_pairs(pairs([500, 2, 2]))  # of one query
    assert len(large) == 100 and {pair.query for pair in large} == {"q0", "q1", "q2"}
    assert len(evaluate.draw_pairs(pairs([5]))) == 5
    two = [replace(pair, query="Q0") if n % 2 else pair for n, pair in enumerate(pairs([90]))]
    others = [replace(pair, query=f"other {pair.query}") for pair in pairs([1] * 60)]
    assert all(len(evaluate.draw_pairs([*two, *others], seed)) <= 100 for seed in range(4))


def test_a_long_file_is_drawn_of_its_first_rows(monkeypatch):
    monkeypatch.setattr(evaluate, "MOST_ROWS_READ", 4)
    rows = [(f"q{n}", "t", 1) for n in range(6)]
    found = evaluate.read_graded(tsv(rows), "a.tsv", PLAIN, GRADES)
    assert (found.n_pairs, found.unread) == (4, True)
    assert not evaluate.read_graded(tsv(rows[:4]), "a.tsv", PLAIN, GRADES).unread


@pytest.mark.parametrize(("queries", "whole"), [("abcd", True), ("a", False)])
def test_only_a_large_query_is_drawn_in_part(monkeypatch, queries, whole):
    monkeypatch.setattr(evaluate, "MOST_PAIRS", 3)
    rows = [(queries[n % len(queries)], f"t{n}", 1) for n in range(4)]
    found = evaluate.read_graded(tsv(rows), "a.tsv", PLAIN, GRADES)
    assert (len(found.pairs), found.whole) == (3, whole)


def test_the_shipped_file():
    found = evaluate.read_graded(None, "", PLAIN, GRADES)
    queries = len({pair.query for pair in found.pairs})
    assert found.n_pairs == len(found.pairs) > 100
    assert evaluate.sample(found).en == f"All {found.n_pairs} pairs ({queries} queries)."
    assert evaluate.read_graded(None, "", PLAIN, ONE).n_pairs == found.n_pairs
    with pytest.raises(evaluate.FileFault, match="does not fit this model: test.tsv"):
        evaluate.read_graded(None, "", PLAIN, THREE)
    drawn = replace(found, pairs=found.pairs[:2], unread=True)
    assert f"from the first {found.n_pairs} pairs" in evaluate.sample(drawn).en


@pytest.fixture(scope="module")
def model(checkpoint_of):
    return opened(checkpoint_of(positions=128))


def measured(
    model: SharedModel,
    data: bytes,
    out: tuple[Head, ...] = (),
    *,
    options: ReaderOptions = PLAIN,
    mode: str = "zero",
) -> evaluate.Measured:
    file = evaluate.read_graded(data, "a.tsv", options, model.labels)
    work = lambda job: evaluate.measure(model, file, out, mode, job)  # noqa: E731
    job = model.worker.start(work, len(file.pairs) * (2 if out else 1))
    assert job._finished.wait(30)
    assert job.result is not None, job.error
    return job.result


@pytest.fixture
def command(monkeypatch, capsys):
    """`command("evaluate", "--pairs", path)`: what `qt-bert evaluate … --json` prints."""

    def call(*words: object) -> Any:
        monkeypatch.setattr(sys, "argv", ["qt-bert", *map(str, words), "--json"])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return json.loads(capsys.readouterr().out)

    return call


def test_the_figures_of_qt_bert_evaluate(model, pair_file, command):
    found = measured(model, pair_file.read_bytes())
    folder = model.scorer.checkpoint.folder
    expected = command("evaluate", "--pairs", pair_file, "--model", folder)
    for name, one in found.plain.metrics.items():
        for field in ("value", "ci_low", "ci_high", "n"):
            assert getattr(one, field) == pytest.approx(expected[name].get(field), abs=1e-5)
        assert one.reason == expected[name].get("reason")
    assert found.plain.confusion == expected["confusion"]
    assert found.plain.mode == expected["mode"]
    assert found.differences == {} and found.changed == []


def test_the_figures_of_qt_bert_compare(model, pair_file, command):
    found = measured(model, pair_file.read_bytes(), OUT, mode="uniform")
    folder = model.scorer.checkpoint.folder
    heads = ("--heads-out", format_heads(OUT), "--mode", "uniform")
    expected = command("compare", folder, folder, "--pairs", pair_file, *heads)["metrics"]
    assert found.differences.keys() == expected.keys()
    for name, one in found.differences.items():
        for field in ("value_a", "value_b", "difference", "ci_low", "ci_high", "p"):
            assert getattr(one, field) == pytest.approx(expected[name][field], abs=1e-5), name


def test_worst_and_changed_pairs(model, pair_file):
    found = measured(model, pair_file.read_bytes(), OUT)
    off = [abs(one["score"] - float(one["label"])) for one in found.worst]
    assert off == sorted(off, reverse=True) and len(off) == 8
    moved = [abs(one["change"]) for one in found.changed]
    assert moved == sorted(moved, reverse=True)
    assert found.about.en.endswith("a.tsv · 8 pairs · without L0H1 L1H0 (zero)")


def test_the_table_of_metrics(model, pair_file):
    found = measured(model, pair_file.read_bytes(), OUT)
    rows = {str(row["metric"].en): row for row in evaluate.metric_rows(found)}
    assert len(rows) == len(found.plain.metrics)
    assert {row["better"] for row in rows.values()} == {"↑", "↓", "→ 0"}
    accuracy, one = rows["accuracy"], found.differences["accuracy"]
    assert (accuracy["without"], accuracy["difference"]) == (one.value_b, one.difference)
    assert accuracy["value"] == one.value_a


def test_one_logit_has_the_metrics_of_order_alone(checkpoint_of, pair_file):
    model = opened(checkpoint_of(labels=1))
    found = measured(model, pair_file.read_bytes(), (Head(0, 0),))
    rows = {row["metric"].en: row for row in evaluate.metric_rows(found)}
    assert rows["accuracy"]["value"] is None
    assert rows["accuracy"]["why"] == REASONS["score"]
    assert found.columns["score"].en == "score" and found.cut is None
    assert rows["NDCG@3"]["value"] is not None
    assert found.plain.confusion is None


def test_three_levels_and_coarse_labels(checkpoint_of, model):
    data = "query\ttitle\tgrade\n甲\t一\t0\n甲\t二\t2\n乙\t三\t1\n".encode()
    three = opened(checkpoint_of(labels=3))
    assert measured(three, data).plain.mode == "levels"
    coarse = ReaderOptions(grades="0=1-2,1=3-4,2=5")
    found = measured(model, data, options=coarse)
    assert (found.plain.mode, found.plain.levels) == ("coarse", ("1-2", "3-4", "5"))
    overlapping = ReaderOptions(grades="0=1-2,1=2-3,2=3-5")
    assert measured(model, data, options=overlapping).plain.confusion is None


def upload(at: AppTest, data: bytes, name: str = "a.tsv") -> AppTest:
    at.main.segmented_control(key="evaluate.source").set_value("upload").run()
    at.main.get("file_uploader")[0].set_value((name, data, "text/plain")).run()
    return at


def evaluated(at: AppTest) -> AppTest:
    at.button(key="evaluate.go").click().run()
    return until(at, lambda: at.main.metric)


def tables(at: AppTest) -> list[set[str]]:
    return [set(frame.value.columns) for frame in at.main.dataframe]


def errors(at: AppTest) -> str:
    return "\n".join(error.value for error in at.main.error)


def test_an_upload_is_evaluated(app):
    at = upload(app("evaluate", lang="en", out="none"), UPLOADED)
    assert not at.exception and not errors(at)
    assert "All 4 pairs (2 queries)" in plain(at)
    assert any("1 row rejected" in one.label for one in at.main.expander)
    evaluated(at)
    assert at.main.metric[0].label == "accuracy"
    at.sidebar.radio(key="side-mode").set_value("uniform").run()  # of no heads
    assert not at.main.warning
    assert not any("p" in columns for columns in tables(at))


def test_heads_out_are_compared(app):
    at = evaluated(upload(app("evaluate", out="L0H1 L1H0", lang="en"), UPLOADED))
    assert any({"value", "without", "difference", "p"} <= columns for columns in tables(at))
    at.sidebar.text_input(key="side-query").set_value("狗追猫").run()
    assert at.main.metric and not at.main.warning
    at.sidebar.text_input(key="side-out").set_value("L0H1").run()
    assert at.main.metric and "other settings" in at.main.warning[0].value


def test_columns_and_grades(app):
    data = "q\tt\tlab\n甲\t一\ta\n甲\t二\tb\n".encode()
    at = upload(app("evaluate", lang="en"), data)
    assert "no column 'query'" in errors(at).replace("\\", "")
    at.text_input(key="evaluate.columns").set_value("query=q,title=t,grade=lab").run()
    assert "--grades" in errors(at).replace("\\", "")
    at.text_input(key="evaluate.grades").set_value("a=1-2,b=5").run()
    assert not errors(at)
    evaluated(at)


def test_an_upload_survives_a_change_of_page_and_can_be_removed(app):
    at = evaluated(upload(app("evaluate", lang="en"), UPLOADED))
    at.switch_page("screens/order.py").run()
    at.switch_page("screens/evaluate.py").run()
    assert not at.exception and at.main.metric
    assert any("in no link" in caption.value for caption in at.main.caption)
    (remove,) = [button for button in at.main.button if "Remove" in button.label]
    remove.click().run()
    assert not [button for button in at.main.button if button.key == "evaluate.go"]


def test_a_stop_is_reported(app, monkeypatch):
    batches = SharedScorer.batches

    def slowly(*given: Any, **more: Any) -> Iterator[Any]:
        for batch in batches(*given, **more):
            yield batch
            time.sleep(1.0)

    monkeypatch.setattr(SharedScorer, "batches", slowly)
    monkeypatch.setattr("qt_bert.page.model.LOCK_TOKENS", 16)
    at = app("evaluate", lang="en")
    at.button(key="evaluate.go").click().run()
    at.button(key="evaluate-stop").click().run()
    until(at, lambda: any("Stopped" in info.value for info in at.main.info))
    assert not at.button(key="evaluate.go").disabled


def test_a_model_of_one_logit(app, checkpoint_of, monkeypatch):
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(checkpoint_of(labels=1)))
    at = evaluated(upload(app("evaluate", out="L0H0", lang="en"), UPLOADED))
    assert not at.exception
    labels = [metric.label.replace("\\", "") for metric in at.main.metric]
    assert labels == ["Spearman's rho", "NDCG@5"]
