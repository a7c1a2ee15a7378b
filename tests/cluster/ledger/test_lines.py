"""Lines and faults as JSON, and the manifest that holds the lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from qt_bert.cluster.record import (
    Fault,
    Line,
    OutFile,
    StatesRead,
    Totals,
    from_text,
    to_text,
    totals_of,
)
from qt_bert.errors import ArgumentError, RunFolderError
from tests.cluster.ledger_runs import open_run, some_parts, work

NAME = "a.l000000002.00ff"
LINE = Line(
    partition=NAME,
    file="s3://logs/a.tsv",
    first=2,
    rows=10,
    input_sha256="1" * 64,
    model_sha256="2" * 64,
    pairs=7,
    reasons={"empty title": 2, "raises ValueError: 长": 1},
    truncated_titles=3,
    truncated_queries=1,
    bad_grades=4,
    states=StatesRead(read=5, long_queries=1, unknown_titles=1),
    part=OutFile(name=f"parts/part-{NAME}.parquet", bytes=99, sha256="3" * 64),
    seconds=2.25,
    node="10.0.0.7",
    attempt=2,
    how="halved",
)
FAULT = Fault(
    partition=NAME, kind="disk", message="the disk is full", again=True, node="n", attempt=3
)
PARTS = some_parts(3)


@pytest.mark.parametrize("said", [LINE, FAULT])
def test_lines_and_faults_come_back_from_json(said: Line | Fault) -> None:
    text = to_text(said)
    assert "\n" not in text
    assert from_text(text) == said


def test_a_line_says_how_many_were_rejected() -> None:
    assert LINE.describe()["rejected"] == LINE.rejected == 3


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("pairs", "7", "'pairs' cannot be '7'"),
        ("pairs", True, "'pairs' cannot be 'True'"),
        ("pairs", 8, "8 pairs and 3 rejects in 10 rows"),
        ("pairs", 0, "0 pairs, but part file"),
        ("part", None, "7 pairs, but part file None"),
        ("part", {"name": "x", "bytes": 1}, "line: part: the key 'sha256' is missing"),
        ("part", {"name": "../x", "bytes": 1, "sha256": ""}, "../x is not that of a.l0"),
        ("states", {"read": 1.5}, "line: states: 'read' cannot be '1.5'"),
        ("reasons", {"empty title": 3.0}, "no counts of rejects"),
        ("rejected", 4, "'rejected' is 4, its reasons say 3"),
        ("truncated_titles", -1, "a count below 0"),
        ("seconds", float("nan"), "nan seconds"),
        ("attempt", 0, "attempt 0"),
        ("how", "backwards", "not scored 'backwards'"),
    ],
)
def test_a_line_that_does_not_fit_is_refused(key: str, value: Any, said: str) -> None:
    text = json.dumps(LINE.describe() | {key: value})
    with pytest.raises(RunFolderError, match=said):
        from_text(text)


@pytest.mark.parametrize("key", list(LINE.describe()))
def test_every_key_is_needed(key: str) -> None:
    value = LINE.describe()
    del value[key]
    with pytest.raises(RunFolderError, match=f"'{key}'"):
        from_text(json.dumps(value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line: no JSON"),
        ("[1]", r"line: no object, but '\[1\]'"),
        ('{"kind": "weather"}', "the key 'partition' is missing"),
        (json.dumps(FAULT.describe() | {"kind": "weather"}), "'input' or 'disk'"),
    ],
)
def test_what_is_no_line_is_refused(text: str, said: str) -> None:
    with pytest.raises(RunFolderError, match=said):
        from_text(text)


def test_half_a_character_in_a_reason_costs_no_line() -> None:
    line = Line.from_json(LINE.describe() | {"reasons": {"raises \ud800": 3}})
    found = from_text(to_text(line))
    assert isinstance(found, Line)
    assert found.reasons == {"raises ?": 3}


def test_totals_add_up_in_any_order() -> None:
    plain = Line(
        partition="b", file="b", first=1, rows=2, input_sha256="", model_sha256="", pairs=0,
        reasons={"empty title": 1, "bad JSON": 1}, part=None, seconds=0.5, node="n",
    )  # fmt: skip
    wanted = Totals(
        pairs=14,
        rejected=8,
        reasons={"empty title": 5, "raises ValueError: 长": 2, "bad JSON": 1},
        truncated_titles=6,
        truncated_queries=2,
        bad_grades=8,
        states=StatesRead(read=10, long_queries=2, unknown_titles=2),
        bytes=198,
        seconds=5.0,
        how={"halved": 2, "whole": 1},
    )
    for lines in ([LINE, plain, LINE], [plain, LINE, LINE]):
        found = totals_of(lines)
        assert found == wanted
        assert list(found.reasons) == list(wanted.reasons)


def test_no_line_may_contradict_itself() -> None:
    with pytest.raises(ArgumentError, match="0 pairs, but part file"):
        Line(
            partition=NAME, file="a", first=1, rows=1, input_sha256="", model_sha256="", pairs=0,
            part=LINE.part, seconds=0, node="n",
        )  # fmt: skip


def _begun(out: Path) -> Path:
    """A run with two finished partitions; its manifest file."""
    ledger = open_run(out, PARTS)
    ledger.done(work(out, PARTS[0]))
    ledger.done(work(out, PARTS[1]))
    (file,) = (out / "manifest").iterdir()
    return file


@pytest.mark.parametrize("cut", [1, 40])
def test_a_line_cut_by_a_kill_is_dropped(tmp_path: Path, cut: int) -> None:
    file = _begun(tmp_path)
    file.write_bytes(file.read_bytes()[:-cut])
    ledger = open_run(tmp_path, PARTS, resume=True)
    assert ledger.missing() == PARTS[1:]
    ledger.done(work(tmp_path, PARTS[1]))
    assert open_run(tmp_path, PARTS, resume=True).missing() == PARTS[2:]


@pytest.mark.parametrize("damage", [b"\xff", b"{", b"[]", to_text(FAULT).encode()])
def test_a_damaged_line_elsewhere_is_said(tmp_path: Path, damage: bytes) -> None:
    file = _begun(tmp_path)
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(damage + b"\n" + second)
    with pytest.raises(
        RunFolderError, match=r"000001.jsonl, line 1: damaged; .*take this line out"
    ):
        open_run(tmp_path, PARTS, resume=True)
    file.write_bytes(second)  # the advice
    assert open_run(tmp_path, PARTS, resume=True).missing() == [PARTS[0], PARTS[2]]


def test_a_line_of_no_partition_is_said(tmp_path: Path) -> None:
    file = _begun(tmp_path)
    with open(file, "a") as handle:
        handle.write(to_text(LINE) + "\n")
    with pytest.raises(RunFolderError, match=f"line 3: '{NAME}' is no partition of this run"):
        open_run(tmp_path, PARTS, resume=True)


def test_other_partitions_than_those_of_the_run_are_refused(tmp_path: Path) -> None:
    _begun(tmp_path)
    file = tmp_path / "partitions.jsonl"
    file.write_bytes(file.read_bytes().replace(b"utf-8", b"utf-9", 1))
    with pytest.raises(RunFolderError, match="partitions.jsonl: not the partitions of this run"):
        open_run(tmp_path, PARTS, resume=True)
    file.unlink()
    with pytest.raises(RunFolderError, match="partitions.jsonl: missing"):
        open_run(tmp_path, PARTS, resume=True)


def test_the_ledger_needs_no_torch_and_no_ray() -> None:
    import subprocess

    code = (
        "import sys, qt_bert.cluster.ledger; print({'torch', 'ray', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
