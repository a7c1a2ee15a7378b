"""The page Evaluate: files good and bad, the figures of the commands, the work in the background."""

from __future__ import annotations

import gzip
import io
import json
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from apps.screens import evaluate
from apps.screens.evaluate import (
    STEPS,
    FileFault,
    Measured,
    commands,
    difference_rows,
    draw_pairs,
    level_figures,
    level_rows,
    measure,
    metric_rows,
    pair_rows,
    read_graded,
    sample,
)
from qt_bert.app import widgets
from qt_bert.cli import main
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.figures import HeatMap
from qt_bert.inspection import inputs
from qt_bert.inspection.inspected import Inspected, Shelf
from qt_bert.inspection.work import Job, JobState
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, spell
from qt_bert.text import Text
from tests.apps.conftest import Visit

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
SECONDS = 30.0
GRADES = ModelLabels(5, tuple((g,) for g in range(1, 6)))
ONE, THREE = ModelLabels(1, None), ModelLabels(3, None)
PLAIN = ReaderOptions()


def tsv(rows: list[tuple[object, ...]], header: str = "query\ttitle\tgrade") -> bytes:
    return "\n".join([header, *("\t".join(map(str, row)) for row in rows)]).encode() + b"\n"


GOOD = tsv([("甲", "一", 5), ("甲", "二", 1), ("乙", "三", 3)])


def fault(data: bytes, name: str = "a.tsv", options: ReaderOptions = PLAIN) -> FileFault:
    with pytest.raises(FileFault) as caught:
        read_graded(data, name, options, GRADES)
    assert "/tmp" not in caught.value.said.en + caught.value.said.zh
    assert len(caught.value.said.en) < 1000
    return caught.value


def test_a_file_with_rejects() -> None:
    bad = GOOD + "丙\t四\t9\n丁\t五\n".encode()
    found = read_graded(bad, "a.tsv", PLAIN, GRADES)
    assert [(p.query, p.title, p.grades) for p in found.pairs] == [
        ("甲", "一", (5,)),
        ("甲", "二", (1,)),
        ("乙", "三", (3,)),
    ]
    assert (found.n_pairs, found.rejected, found.unread) == (3, 2, False)
    assert [(r.line, r.reason) for r in found.rejects] == [(5, "bad grade"), (6, "too few fields")]


def test_columns_and_grades_as_the_command_reads_them() -> None:
    data = tsv([("0", "一", "甲"), ("2", "二", "甲")], "lab\tt\tq")
    options = ReaderOptions("query=q,title=t,grade=lab", grades="0=1-2,1=3-4,2=5")
    found = read_graded(data, "a.tsv", options, GRADES)
    assert [(p.query, p.grades) for p in found.pairs] == [("甲", (1, 2)), ("甲", (5,))]


def test_json_lines_and_gb18030() -> None:
    line = '{"query": "甲", "title": "一", "grade": 4}\n'
    assert read_graded(line.encode(), "a.jsonl", PLAIN, GRADES).pairs[0].grades == (4,)
    found = read_graded(GOOD.decode().encode("gb18030"), "a.tsv", PLAIN, GRADES)
    assert found.pairs[0].query == "甲"


def test_levels_of_a_model_that_has_no_grades() -> None:
    data = tsv([("甲", "一", 0), ("甲", "二", 2)])
    assert [p.grades for p in read_graded(data, "a.tsv", PLAIN, THREE).pairs] == [(1,), (3,)]


def test_nothing_stays_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(inputs.tempfile, "tempdir", str(tmp_path))
    read_graded(GOOD, "a.tsv", PLAIN, GRADES)
    fault(b"\x00" * 100)
    assert list(tmp_path.iterdir()) == []  # type: ignore[attr-defined]


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.tsv"), GOOD)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (zipped(), "a.tsv", "a zip archive"),
        (b"\x00\x01" * 5000, "a.tsv", "binary"),
        (b"", "a.tsv", "empty"),
        (b"a" * (11 * 2**20), "a.tsv", "larger than 10 MB"),
        (gzip.compress(GOOD, mtime=0), "a.tsv.gz", "plain text files"),
        (GOOD, "a.exe", "plain text files"),
        (b"query\ttitle\tgrade\n", "a.tsv", "no rows"),
        (b"{", "a.jsonl", "not one of 1 rows is a pair"),
    ],
)
def test_hostile_files_get_a_plain_word(data: bytes, name: str, said: str) -> None:
    found = fault(data, name)
    assert found.field == "file"
    assert said in found.said.en


def test_ten_megabytes_of_one_line() -> None:
    found = fault(b"x" * (10 * 2**20))
    assert found.field == "columns"
    assert "no column 'query'" in found.said.en


def test_two_columns_of_one_very_long_name() -> None:
    long = "x" * 100_000
    assert len(fault(f"{long}\t{long}\n".encode()).said.zh) < 1000


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (ReaderOptions(columns="query"), "columns"),
        (ReaderOptions(columns="query=a,title=a"), "columns"),
        (ReaderOptions(columns="query=nowhere"), "columns"),
        (ReaderOptions(columns="q=query"), "columns"),
        (ReaderOptions(grades="0=7"), "grades"),
        (ReaderOptions(grades="nonsense"), "grades"),
        (ReaderOptions(no_header=True, columns="query=q"), "columns"),
    ],
)
def test_an_error_stands_beside_its_field(options: ReaderOptions, field: str) -> None:
    assert fault(GOOD, options=options).field == field


def test_labels_that_are_no_grades() -> None:
    found = fault(tsv([("甲", "一", "good")] * 3))
    assert found.field == "grades"
    assert [reject.reason for reject in found.rejects] == ["bad grade"] * 3


def test_no_labels_at_all() -> None:
    assert fault(tsv([("甲", "一")], "query\ttitle")).field == "columns"


def test_labels_of_several_levels_for_a_model_without_grades() -> None:
    options = ReaderOptions(grades="0=1-2,1=3")
    with pytest.raises(FileFault) as caught:
        read_graded(tsv([("甲", "一", 0)]), "a.tsv", options, THREE)
    assert caught.value.field == "grades"


def pairs(sizes: list[int]) -> list[Pair]:
    return [
        Pair(f"q{query}", f"t{n}", (1,), "1", 1, "1", {})
        for query, size in enumerate(sizes)
        for n in range(size)
    ]


def test_a_draw_takes_whole_queries_and_no_more_than_it_may() -> None:
    sizes = [3, 5, 2, 4, 5, 1] * 20
    found = draw_pairs(pairs(sizes), seed=1, most=100)
    counts = Counter(pair.query for pair in found)
    assert 90 < len(found) <= 100
    assert all(counts[query] == sizes[int(query[1:])] for query in counts)
    assert found == [pair for pair in pairs(sizes) if pair.query in counts]
    assert (
        draw_pairs(pairs(sizes), seed=1, most=100)
        == found
        != draw_pairs(pairs(sizes), seed=2, most=100)
    )


def test_a_draw_of_one_large_query() -> None:
    found = draw_pairs(pairs([500, 2, 2]), most=100)
    assert len(found) == 100
    assert {pair.query for pair in found} == {"q0", "q1", "q2"}
    assert len(draw_pairs(pairs([5]), most=100)) == 5


def test_a_long_file_is_drawn_of_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MOST_ROWS_READ", 4)
    rows = [(f"q{n}", "t", 1) for n in range(6)]
    found = read_graded(tsv(rows), "a.tsv", PLAIN, GRADES)
    assert (found.n_pairs, found.unread) == (4, True)
    assert not read_graded(tsv(rows[:4]), "a.tsv", PLAIN, GRADES).unread


def test_what_ships() -> None:
    found = read_graded(None, "", PLAIN, GRADES)
    assert found.n_pairs == len(found.pairs) > 100
    assert (
        sample(found).en == f"All {found.n_pairs} pairs ({len(queries_in(found.pairs))} queries)."
    )
    assert read_graded(None, "", PLAIN, ONE).n_pairs == found.n_pairs
    with pytest.raises(FileFault, match="cannot judge this model: test.tsv"):
        read_graded(None, "", PLAIN, THREE)
    drawn = replace(found, pairs=found.pairs[:2], unread=True)
    assert "of the first 100,000 pairs" in sample(drawn).en


def queries_in(pairs: tuple[Pair, ...]) -> set[str]:
    return {pair.query for pair in pairs}


def opened(folder: Path) -> Inspected:
    shelf = Shelf(folder)
    return shelf.open(shelf.names[0])


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Callable[..., Path]) -> Inspected:
    return opened(checkpoint_of(positions=128))


def job_of(
    inspected: Inspected,
    data: bytes,
    out: tuple[Head, ...] = (),
    *,
    options: ReaderOptions = PLAIN,
    mode: str = "zero",
) -> Job[Measured]:
    file = read_graded(data, "a.tsv", options, inspected.labels)
    work = lambda job: measure(inspected, file, out, mode, job)  # noqa: E731
    job = inspected.worker.start(work, len(file.pairs) * (2 if out else 1))
    end = time.monotonic() + SECONDS
    while not job.standing().finished:
        assert time.monotonic() < end
        time.sleep(0.02)
    return job


def measured(inspected: Inspected, data: bytes, *given: Any, **more: Any) -> Measured:
    job = job_of(inspected, data, *given, **more)
    assert job.result is not None, job.error
    return job.result


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """`command("evaluate", "--pairs", path)`: what `qt-bert evaluate … --json` prints."""

    def call(*words: object) -> Any:
        monkeypatch.setattr(sys, "argv", ["qt-bert", *map(str, words), "--json"])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return json.loads(capsys.readouterr().out)

    return call


def test_the_figures_of_qt_bert_evaluate(
    inspected: Inspected, pair_file: Path, command: Command
) -> None:
    found = measured(inspected, pair_file.read_bytes())
    folder = inspected.scorer.checkpoint.folder
    expected = command("evaluate", "--pairs", pair_file, "--model", folder)
    for name, one in found.plain.metrics.items():
        for field in ("value", "ci_low", "ci_high", "n"):
            assert getattr(one, field) == pytest.approx(expected[name].get(field), abs=1e-5)
        assert one.reason == expected[name].get("reason")
    assert found.plain.confusion == expected["confusion"]
    assert found.plain.mode == expected["mode"]
    assert found.without is None and found.differences is None


def test_the_figures_of_qt_bert_compare(
    inspected: Inspected, pair_file: Path, command: Command
) -> None:
    found = measured(inspected, pair_file.read_bytes(), OUT, mode="uniform")
    folder = inspected.scorer.checkpoint.folder
    heads = ("--heads-out", spell(OUT), "--mode", "uniform")
    expected = command("compare", folder, folder, "--pairs", pair_file, *heads)["metrics"]
    assert found.differences is not None
    for name, one in found.differences.items():
        for field in ("value_a", "value_b", "difference", "ci_low", "ci_high", "p"):
            assert getattr(one, field) == pytest.approx(expected[name][field], abs=1e-5), name


def test_without_is_the_evaluation_of_the_masked_model(
    inspected: Inspected, pair_file: Path, command: Command
) -> None:
    found = measured(inspected, pair_file.read_bytes(), OUT)
    folder = inspected.scorer.checkpoint.folder
    expected = command(
        "evaluate", "--pairs", pair_file, "--model", folder, "--heads-out", spell(OUT)
    )
    assert found.without is not None
    value = found.without.metrics["mae"].value
    assert value == pytest.approx(expected["mae"]["value"], abs=1e-5)
    assert value != pytest.approx(found.plain.metrics["mae"].value, abs=1e-5)


def test_progress_counts_pairs(inspected: Inspected, pair_file: Path) -> None:
    standing = job_of(inspected, pair_file.read_bytes(), OUT).standing()
    assert (standing.done, standing.total) == (16, 16) and standing.note in STEPS


def test_worst_and_changed_pairs(inspected: Inspected, pair_file: Path) -> None:
    found = measured(inspected, pair_file.read_bytes(), OUT)
    off = [abs(one.score - float(one.label or 0)) for one in found.worst]
    assert off == sorted(off, reverse=True) and len(off) == 8
    moved = [abs((one.score_without or 0) - one.score) for one in found.changed]
    assert moved == sorted(moved, reverse=True)
    row = pair_rows(found.changed)[0]
    assert row["change"] == pytest.approx((row["without"] or 0) - row["score"])  # type: ignore[operator]


def test_tables_and_figures(inspected: Inspected, pair_file: Path) -> None:
    found = measured(inspected, pair_file.read_bytes(), OUT)
    rows = metric_rows(found.plain)
    assert len(rows) == len(found.plain.metrics)
    assert {row["better"] for row in rows} == {"↑", "↓", "→ 0"}
    assert [row["level"] for row in level_rows(found.plain)] == list("12345")
    confusion, *_ = level_figures(found.plain)
    assert isinstance(confusion, HeatMap) and confusion.rows == tuple("12345")
    assert found.differences is not None
    accuracy = next(r for r in difference_rows(found.differences) if r["metric"].en == "accuracy")  # type: ignore[union-attr]
    assert accuracy["difference"] == found.differences["accuracy"].difference


def test_one_logit_has_the_metrics_of_order_alone(
    checkpoint_of: Callable[..., Path], pair_file: Path
) -> None:
    inspected = opened(checkpoint_of(labels=1))
    found = measured(inspected, pair_file.read_bytes(), (Head(0, 0),))
    rows = {row["metric"].en: row for row in metric_rows(found.plain)}  # type: ignore[union-attr]
    assert rows["accuracy"]["value"] is None
    assert "one-logit" in str(rows["accuracy"]["why"])
    assert rows["NDCG@3"]["value"] is not None
    assert level_figures(found.plain) == [] and level_rows(found.plain) == []


def test_three_levels_and_coarse_labels(
    checkpoint_of: Callable[..., Path], inspected: Inspected
) -> None:
    data = "query\ttitle\tgrade\n甲\t一\t0\n甲\t二\t2\n乙\t三\t1\n".encode()
    three = opened(checkpoint_of(labels=3))
    assert measured(three, data).plain.mode == "levels"
    coarse = ReaderOptions(grades="0=1-2,1=3-4,2=5")
    found = measured(inspected, data, options=coarse)
    assert (found.plain.mode, found.plain.levels) == ("coarse", ("1-2", "3-4", "5"))
    overlapping = ReaderOptions(grades="0=1-2,1=2-3,2=3-5")
    none = measured(inspected, data, options=overlapping)
    assert none.plain.confusion is None and level_figures(none.plain) == []


def test_labels_that_do_not_fit_are_said_before_anything_is_scored(
    checkpoint_of: Callable[..., Path],
) -> None:
    three = opened(checkpoint_of(labels=3))
    data = "query\ttitle\tgrade\n甲\t一\t0\n".encode()
    with pytest.raises(FileFault, match="say which grades each means"):
        measured(three, data, options=ReaderOptions(grades="0=1-2"))


def test_commands_are_quoted_and_whole(inspected: Inspected) -> None:
    folder = str(inspected.scorer.checkpoint.folder)
    options = ReaderOptions("query=q,title=t,grade=g", False, "0=1-2,1=3-5", 0.5)
    file = read_graded("q\tt\tg\n甲\t一\t0\n".encode(), "my file; rm.tsv", options, GRADES)
    (told,) = commands(inspected, file, (), "zero", 3)
    assert told == (
        f"qt-bert evaluate --model {folder} --pairs 'my file; rm.tsv' "
        "--columns query=q,title=t,grade=g --grades 0=1-2,1=3-5 --max-rejects 0.5 --seed 3"
    )
    both = commands(inspected, read_graded(None, "", PLAIN, GRADES), OUT, "mean", 0)
    assert both == [
        f"qt-bert evaluate --model {folder}",
        f"qt-bert compare {folder} {folder} --heads-out 'L0H1 L1H0' --mode mean",
    ]


def test_about_names_model_file_and_heads(inspected: Inspected, pair_file: Path) -> None:
    assert measured(inspected, pair_file.read_bytes()).about.en.endswith("a.tsv · 8 pairs")
    about = measured(inspected, pair_file.read_bytes(), OUT).about.en
    assert "without 2 heads: L0H1 L1H0 (zero)" in about


def upload(at: AppTest, data: bytes, name: str = "a.tsv") -> AppTest:
    at.main.radio(key="evaluate.source").set_value("upload").run()
    at.main.get("file_uploader")[0].set_value((name, data, "text/plain")).run()
    return at


def evaluated(at: AppTest) -> AppTest:
    at.button(key="evaluate.go").click().run()
    end = time.monotonic() + SECONDS
    while not at.main.metric:
        assert time.monotonic() < end and not at.exception, "no figures"
        time.sleep(0.1)
        at.run()
    return at


def tables(at: AppTest) -> list[set[str]]:
    return [set(frame.value.columns) for frame in at.main.dataframe]


def errors(at: AppTest) -> str:
    return "\n".join(error.value for error in at.main.error)


def test_an_upload_is_evaluated(app: Visit) -> None:
    at = upload(app("evaluate", lang="en", out="none"), UPLOADED)
    assert not at.exception and not errors(at)
    assert any(
        "All 4 pairs (2 queries)" in text.value.replace("\\", "") for text in at.main.markdown
    )
    assert any("1 rows rejected" in one.label for one in at.main.expander)
    command = at.main.code[0].value
    assert command.startswith("qt-bert evaluate") and "--pairs a.tsv" in command
    evaluated(at)
    labels = [metric.label for metric in at.main.metric]
    assert labels[0] == "accuracy"
    assert any({"precision", "recall", "f1"} <= columns for columns in tables(at))
    assert not any("p" in columns for columns in tables(at))


def test_heads_out_are_compared(app: Visit) -> None:
    at = evaluated(upload(app("evaluate", out="L0H1 L1H0", lang="en"), UPLOADED))
    assert any({"plain", "without", "difference", "p"} <= columns for columns in tables(at))
    assert len(at.main.code) == 2 and "--heads-out 'L0H1 L1H0'" in at.main.code[1].value
    at.sidebar.text_input(key="side-query").set_value("狗追猫").run()
    assert at.main.metric and not any("changed" in w.value for w in at.main.warning)


def test_columns_and_grades(app: Visit) -> None:
    data = "q\tt\tlab\n甲\t一\ta\n甲\t二\tb\n".encode()
    at = upload(app("evaluate", lang="en"), data)
    assert "no column 'query'" in errors(at).replace("\\", "")
    at.text_input(key="evaluate.columns").set_value("query=q,title=t,grade=lab").run()
    assert "--grades" in errors(at).replace("\\", "")
    at.text_input(key="evaluate.grades").set_value("a=1-2,b=5").run()
    assert not errors(at)
    evaluated(at)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"PK\x03\x04zip", "a.tsv"),
        (b"\x00" * 999, "a.tsv"),
        (b"", "a.tsv"),
        (b"x" * 2**20, "a.csv"),
    ],
)
def test_a_bad_file_gets_a_plain_word(app: Visit, data: bytes, name: str) -> None:
    at = upload(app("evaluate"), data, name)
    assert not at.exception
    assert len(at.main.error) == 1 and "Traceback" not in errors(at) and "/tmp" not in errors(at)
    assert not [button for button in at.main.button if button.key == "evaluate.go"]


def test_an_upload_survives_a_change_of_page_and_can_be_removed(app: Visit) -> None:
    at = evaluated(upload(app("evaluate", lang="en"), UPLOADED))
    at.switch_page("screens/order.py").run()
    at.switch_page("screens/evaluate.py").run()
    assert not at.exception and at.main.metric
    assert any("Still using a" in caption.value for caption in at.main.caption)
    (remove,) = [button for button in at.main.button if "Remove" in button.label]
    remove.click().run()
    assert not [button for button in at.main.button if button.key == "evaluate.go"]


def test_a_stop_is_said(app: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qt_bert.inspection.work._PAUSE", 1.0)  # after each of many small batches
    monkeypatch.setattr("qt_bert.inspection.inspected.LOCK_TOKENS", 16)
    at = app("evaluate", lang="en")
    at.button(key="evaluate.go").click().run()
    at.button(key="evaluate-stop").click().run()
    end = time.monotonic() + SECONDS
    while not any("Stopped" in info.value for info in at.main.info):
        assert time.monotonic() < end and not at.exception
        time.sleep(0.1)
        at.run()
    assert not at.button(key="evaluate.go").disabled


def test_words_of_a_job() -> None:
    standing = JobState(place=0, done=30, total=120, rate=10.0, left=9.0, note="a", finished=False)
    unit, steps = Text("对", "pairs"), {"a": Text("打分", "scoring")}
    assert widgets.words_of(standing, unit, steps) == "打分 · 30 / 120 对 · 10 对/秒 · 约剩 9 秒"


def test_a_model_of_one_logit(
    app: Visit, checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(checkpoint_of(labels=1)))
    at = evaluated(upload(app("evaluate", out="L0H0", lang="en"), UPLOADED))
    assert not at.exception
    labels = [metric.label.replace("\\", "") for metric in at.main.metric]
    assert labels == ["Spearman's rho", "NDCG@5"]
