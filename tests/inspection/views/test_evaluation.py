"""The page Evaluate: the figures of `qt-bert evaluate` and `compare`, in slices."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qt_bert.cli import main
from qt_bert.data.reader import ReaderOptions
from qt_bert.figures import HeatMap
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.turns import Stopped, Turns
from qt_bert.inspection.views.evaluation import (
    STEPS,
    FileFault,
    Measured,
    about,
    difference_rows,
    evaluate_pairs,
    figures,
    headline,
    level_rows,
    metric_rows,
    pair_rows,
    read_graded,
    units,
)
from qt_bert.inspection.views.shared import compare_command, evaluate_command
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head, spell

Build = Callable[..., Path]
Command = Callable[..., Any]
OUT = (Head(0, 1), Head(1, 0))


class Counted:
    def __init__(self) -> None:
        self.done, self.notes = 0, []

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.done += amount
        self.notes.append(note)


def measured(
    inspected: Inspected,
    data: bytes,
    out: tuple[Head, ...] = (),
    *,
    options: ReaderOptions | None = None,
    shown: Any = None,
    resamples: int = 200,
    mode: str = "zero",
) -> Measured:
    file = read_graded(data, "a.tsv", options or ReaderOptions(), inspected.labels)
    with inspected.turns.job() as job:
        counted = shown or Counted()
        return evaluate_pairs(inspected, file.pairs, out, mode, job, counted, resamples=resamples)


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Build) -> Inspected:
    return Inspected("tiny", open_checkpoint(checkpoint_of(positions=128)), Turns())


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
    found = measured(inspected, pair_file.read_bytes(), resamples=2000)
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


def test_progress_counts_pairs_and_names_its_steps(inspected: Inspected, pair_file: Path) -> None:
    shown = Counted()
    measured(inspected, pair_file.read_bytes(), OUT, shown=shown)
    assert shown.done == units(8, True) == 16
    assert set(shown.notes) == set(STEPS)


def test_a_stop_ends_it(inspected: Inspected, pair_file: Path) -> None:
    file = read_graded(pair_file.read_bytes(), "a.tsv", ReaderOptions(), inspected.labels)
    stop = threading.Event()
    stop.set()
    with inspected.turns.job(stop) as job, pytest.raises(Stopped):
        evaluate_pairs(inspected, file.pairs, (), "zero", job)


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
    confusion, *_ = figures(found.plain)
    assert isinstance(confusion, HeatMap) and confusion.rows == tuple("12345")
    assert found.differences is not None
    accuracy = next(r for r in difference_rows(found.differences) if r["metric"].en == "accuracy")  # type: ignore[union-attr]
    assert accuracy["difference"] == found.differences["accuracy"].difference
    top = headline(found)[0]
    assert top.change == found.differences["accuracy"].difference
    assert "8 pairs" in top.base.en


def test_one_logit_has_the_metrics_of_order_alone(checkpoint_of: Build, pair_file: Path) -> None:
    inspected = Inspected("tiny", open_checkpoint(checkpoint_of(labels=1)), Turns())
    found = measured(inspected, pair_file.read_bytes(), (Head(0, 0),))
    rows = {row["metric"].en: row for row in metric_rows(found.plain)}  # type: ignore[union-attr]
    assert rows["accuracy"]["value"] is None
    assert "one-logit" in rows["accuracy"]["why"].en  # type: ignore[union-attr]
    assert "单 logit" in rows["accuracy"]["why"].zh  # type: ignore[union-attr]
    assert rows["NDCG@3"]["value"] is not None
    assert figures(found.plain) == () and level_rows(found.plain) == []
    assert "accuracy" not in [one.title.en for one in headline(found)]


def test_three_levels_and_coarse_labels(checkpoint_of: Build, inspected: Inspected) -> None:
    data = "query\ttitle\tgrade\n甲\t一\t0\n甲\t二\t2\n乙\t三\t1\n".encode()
    three = Inspected("tiny", open_checkpoint(checkpoint_of(labels=3)), Turns())
    assert measured(three, data).plain.mode == "levels"
    coarse = ReaderOptions(grades="0=1-2,1=3-4,2=5")
    found = measured(inspected, data, options=coarse)
    assert (found.plain.mode, found.plain.levels) == ("coarse", ("1-2", "3-4", "5"))
    overlapping = ReaderOptions(grades="0=1-2,1=2-3,2=3-5")
    none = measured(inspected, data, options=overlapping)
    assert none.plain.confusion is None and figures(none.plain) == ()


def test_labels_that_do_not_fit_are_said_before_anything_is_scored(
    checkpoint_of: Build,
) -> None:
    three = Inspected("tiny", open_checkpoint(checkpoint_of(labels=3)), Turns())
    data = "query\ttitle\tgrade\n甲\t一\t0\n".encode()
    with pytest.raises(FileFault, match="say which grades each means"):
        measured(three, data, options=ReaderOptions(grades="0=1-2"))


def test_commands_are_quoted_and_whole(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(inspected.scorer.checkpoint.folder)
    options = ReaderOptions("query=q,title=t", True, "0=1-2,1=3-5", 0.5)
    told = evaluate_command(inspected, "my file; rm -rf.tsv", options, seed=3)
    assert told == (
        f"qt-bert evaluate --model {folder} --pairs 'my file; rm -rf.tsv' "
        "--columns query=q,title=t --grades 0=1-2,1=3-5 --max-rejects 0.5 --seed 3 --no-header"
    )
    assert (
        evaluate_command(inspected, None, ReaderOptions()) == f"qt-bert evaluate --model {folder}"
    )
    beside = compare_command(inspected, None, ReaderOptions(), OUT, "mean")
    assert beside == f"qt-bert compare {folder} {folder} --heads-out 'L0H1 L1H0' --mode mean"


def test_about_names_model_file_and_heads(inspected: Inspected, pair_file: Path) -> None:
    file = read_graded(pair_file.read_bytes(), "a.tsv", ReaderOptions(), inspected.labels)
    assert about(inspected, file, (), "zero").en.endswith("a.tsv · 8 pairs")
    assert "without 2 heads: L0H1 L1H0 (zero)" in about(inspected, file, OUT, "zero").en
