"""A run from its beginning to its end: folder, flags, key, and every kill on the way."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from qt_bert.cluster.ledger import Ledger
from qt_bert.cluster.storage import LocalStorage
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from tests.cluster.ledger_runs import (
    KEY,
    Killed,
    Mortal,
    complete,
    contents,
    open_run,
    some_parts,
    work,
)

PARTS = some_parts(3)
NEW = ("partitions.jsonl", "run.json")
REJECTED = {2: 1, 10: 2}  # by first line: one row of the first part, two of the third


def test_a_run_leaves_parts_rejects_and_totals(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ledger = open_run(out, PARTS)
    assert ledger.missing() == PARTS
    complete(ledger, out, REJECTED)
    record = json.loads((out / "run.json").read_text())
    assert (record["kind"], record["schema"], record["complete"]) == ("score-ray", 1, True)
    assert (record["partitions"], record["rows"], record["key"]) == (3, 12, KEY)
    assert record["scan"] == {"columns": ["query"]}
    sizes = sum(path.stat().st_size for path in (out / "parts").iterdir())
    assert record["totals"] == {
        "pairs": 9,
        "rejected": 3,
        "reasons": {"empty title": 3},
        "truncated_titles": 0,
        "truncated_queries": 0,
        "bad_grades": 0,
        "states": None,
        "bytes": sizes,
        "seconds": 4.5,
        "how": {"whole": 3},
    }
    assert (out / "rejects.tsv").read_text() == (
        "file\tline\treason\ttext\n"
        "day/a.tsv\t2\tempty title\tq2 \n"
        "day/a.tsv\t10\tempty title\tq10 \n"
        "day/a.tsv\t11\tempty title\tq11 \n"
    )
    names = {"run.json", "partitions.jsonl", "manifest", "parts", "rejects.tsv"}
    assert {path.name for path in out.iterdir()} == names


def test_progress_is_counted_by_rows(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    ledger.done(work(tmp_path, PARTS[1], rejected=1), work(tmp_path, PARTS[0]))
    assert (ledger.rows_done, ledger.pairs, ledger.rejected) == (8, 7, 1)
    assert ledger.missing() == [PARTS[2]]
    again = open_run(tmp_path, PARTS, resume=True)
    assert (again.rows_done, again.pairs, again.rejected) == (8, 7, 1)
    assert again.missing() == [PARTS[2]]


@pytest.mark.parametrize(("appends", "torn"), [(True, False), (True, True), (False, False)])
def test_a_kill_anywhere_is_gone_on_from(tmp_path: Path, appends: bool, torn: bool) -> None:
    wanted = tmp_path / "wanted"
    complete(open_run(wanted, PARTS), wanted, REJECTED)
    at, ended = 0, False
    while not ended:
        out = tmp_path / str(at)
        complete(open_run(out, PARTS[:2]), out, {6: 1})  # an older run, to be replaced
        try:
            mortal = Mortal(out, at=at, torn=torn, appends=appends)
            complete(open_run(mortal, PARTS, overwrite=True), out, REJECTED)
            ended = True
        except Killed:
            complete(open_run(out, PARTS, resume=True, **_old_key(out)), out, REJECTED)
        assert contents(out) == contents(wanted), f"killed at change {at}"
        at += 1
    assert at > 12  # each partition, each removal, each step of the end was one of the kills


def _old_key(out: Path) -> dict[str, object]:
    """Nothing was changed yet: the older run is whole, and so is replaced after all."""
    finished = json.loads((out / "run.json").read_text())["partitions"] == 2
    return {"overwrite": True} if finished else {}


def test_a_kill_before_the_first_change_leaves_an_older_run_as_it_was(tmp_path: Path) -> None:
    complete(open_run(tmp_path, PARTS), tmp_path, REJECTED)
    before = contents(tmp_path)

    def fails() -> object:
        raise PairFileError("a shard is empty")

    with pytest.raises(PairFileError, match="a shard is empty"):
        Ledger.open(LocalStorage(tmp_path), fails, lambda facts: None, overwrite=True)  # type: ignore[arg-type,return-value]
    assert contents(tmp_path) == before


def test_the_scan_is_not_made_again(tmp_path: Path) -> None:
    open_run(tmp_path, PARTS)
    ledger = open_run(tmp_path, [], resume=True)
    assert ledger.missing() == PARTS
    assert ledger.record.scan == {"columns": ["query"]}


def test_a_run_is_not_begun_over_another(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    with pytest.raises(RunFolderError, match="unfinished scoring run; add --resume"):
        open_run(tmp_path, PARTS)
    complete(ledger, tmp_path, {})
    with pytest.raises(RunFolderError, match="a finished scoring run; add --resume"):
        open_run(tmp_path, PARTS)


def test_overwrite_removes_the_run_and_nothing_else(tmp_path: Path) -> None:
    complete(open_run(tmp_path, PARTS), tmp_path, REJECTED)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "parts" / "mine.csv").write_text("mine")
    ledger = open_run(tmp_path, PARTS, overwrite=True, key=KEY | {"model": "m2"})
    assert ledger.missing() == PARTS
    assert set(contents(tmp_path)) == {"notes.txt", "parts/mine.csv", *NEW}


@pytest.mark.parametrize("flags", [{}, {"resume": True}, {"overwrite": True}])
def test_something_else_is_never_touched(tmp_path: Path, flags: dict[str, bool]) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(RunFolderError, match=r"holds no scoring run \(no run.json"):
        open_run(tmp_path, PARTS, **flags)
    (tmp_path / "run.json").write_text('{"kind": "sweep"}')
    with pytest.raises(RunFolderError, match='kind "score-ray".*choose another folder'):
        open_run(tmp_path, PARTS, **flags)
    with pytest.raises(RunFolderError, match="thesis.txt is no folder"):
        open_run(tmp_path / "thesis.txt", PARTS, **flags)
    assert (tmp_path / "thesis.txt").read_text() == "x"


def test_another_key_is_refused_by_name(tmp_path: Path) -> None:
    open_run(tmp_path, PARTS)
    other = {"model": "m2", "--dtype": "float32", "source": "s2", "title states": "t"}
    with pytest.raises(
        RunFolderError, match="another model, version of this program, title states; resume with"
    ):
        open_run(tmp_path, PARTS, resume=True, key=other)
    with pytest.raises(
        RunFolderError, match="begun with another --dtype, version of this program;"
    ):
        open_run(tmp_path, PARTS, resume=True, key={"model": "m1"})


def test_settings_may_differ_and_are_recorded(tmp_path: Path) -> None:
    open_run(tmp_path, PARTS)
    open_run(tmp_path, PARTS, resume=True, settings={"actors": 64})
    assert json.loads((tmp_path / "run.json").read_text())["settings"] == {"actors": 64}


def test_a_finished_run_has_nothing_to_do(tmp_path: Path) -> None:
    complete(open_run(tmp_path, PARTS), tmp_path, REJECTED)
    before = contents(tmp_path)
    ledger = open_run(tmp_path, PARTS, resume=True, settings={"actors": 64})
    assert (ledger.record.complete, ledger.missing(), ledger.put_back) == (True, [], {})
    assert ledger.finish() == ledger.record
    assert contents(tmp_path) == before
    with pytest.raises(RunFolderError, match="the run is finished"):
        ledger.done(work(tmp_path / "elsewhere", PARTS[0]))


def test_a_run_with_missing_partitions_does_not_end(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    ledger.done(work(tmp_path, PARTS[0]))
    with pytest.raises(RunFolderError, match=f"2 of 3 partitions.*first is {PARTS[1].name()}"):
        ledger.finish()


def test_the_last_of_two_lines_counts(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    ledger.done(work(tmp_path, PARTS[0], rejected=2))
    ledger.done(work(tmp_path, PARTS[0], rejected=1, attempt=2, how="alone"))
    assert (ledger.rows_done, ledger.pairs, ledger.rejected) == (4, 3, 1)
    assert len(list((tmp_path / "parts").iterdir())) == 1
    complete(open_run(tmp_path, PARTS, resume=True), tmp_path, {})
    totals = json.loads((tmp_path / "run.json").read_text())["totals"]
    assert (totals["pairs"], totals["rejected"], totals["how"]) == (11, 1, {"whole": 2, "alone": 1})


def test_a_part_that_the_slower_of_two_workers_replaced_is_seen_at_the_end(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS[:1])
    line = work(tmp_path, PARTS[0])
    assert line.part is not None
    ledger.done(line)
    ledger.done(replace(line, part=replace(line.part, sha256="0" * 64)))
    with pytest.raises(RunFolderError, match="1 parts are not what was stored.*other bytes"):
        ledger.finish()


def test_a_line_of_another_run_is_refused(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    stranger = work(tmp_path, some_parts(1, file="day/b.tsv")[0])
    with pytest.raises(RunFolderError, match="is no partition of this run"):
        ledger.done(stranger)
    with pytest.raises(RunFolderError, match="is no partition of this run"):
        ledger.done(replace(work(tmp_path, PARTS[0]), input_sha256="0" * 64))
    assert ledger.missing() == PARTS


def test_equal_partitions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="the same rows of the same file"):
        open_run(tmp_path, [PARTS[0], PARTS[0]])
    assert not list(tmp_path.iterdir())


class _Full(LocalStorage):
    """A disk that takes half a line."""

    def append(self, name: str, data: bytes) -> None:
        super().append(name, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said_and_gone_on_from(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    ledger.done(work(tmp_path, PARTS[0]))
    ledger = open_run(_Full(tmp_path), PARTS, resume=True)
    with pytest.raises(RunFolderError, match="disk is full; 1 of 3 partitions are done; make room"):
        ledger.done(work(tmp_path, PARTS[1]))
    complete(open_run(tmp_path, PARTS, resume=True), tmp_path, {})


class _FullOnce(LocalStorage):
    full = [True]

    def append(self, name: str, data: bytes) -> None:
        if self.full.pop() if self.full else False:
            super().append(name, data[:20])
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        super().append(name, data)


def test_a_line_never_follows_half_a_line(tmp_path: Path) -> None:
    ledger = open_run(_FullOnce(tmp_path), PARTS)
    with pytest.raises(RunFolderError, match="the disk is full"):
        ledger.done(work(tmp_path, PARTS[0]))
    ledger.done(work(tmp_path, PARTS[1]))
    assert open_run(tmp_path, PARTS, resume=True).missing() == [PARTS[0], PARTS[2]]


def test_another_fault_of_the_disk_is_said(tmp_path: Path) -> None:
    class Broken(LocalStorage):
        def write(self, name: str, chunks: Iterable[bytes]) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(RunFolderError, match="cannot be read or written.*Input/output error"):
        open_run(Broken(tmp_path), PARTS)


def test_ten_thousand_partitions_load_quickly_and_are_never_rewritten(tmp_path: Path) -> None:
    parts = some_parts(10_000, rows=1)
    ledger = open_run(tmp_path, parts, max_rejects=1.0)
    lines = [work(tmp_path, parts[0], rejected=1)]
    lines += [_rejected_like(lines[0], part) for part in parts[1:]]
    ledger.done(*lines[:5_000])
    (stored,) = (tmp_path / "manifest").iterdir()
    before = stored.read_bytes()
    begun = time.process_time()
    ledger.done(lines[5_000])
    assert time.process_time() - begun < 0.1
    assert stored.read_bytes()[: len(before)] == before
    ledger.done(*lines[5_001:-1])
    begun = time.process_time()
    ledger = open_run(_NoRejects(tmp_path), parts, resume=True, max_rejects=1.0)
    assert time.process_time() - begun < 5
    assert ledger.missing() == parts[-1:]


def _rejected_like(line, part):  # type: ignore[no-untyped-def]
    return replace(line, partition=part.name(), first=part.first, input_sha256=part.sha256)


class _NoRejects(LocalStorage):
    """Ten thousand lists of rejects that need not be written for a test."""

    def open(self, name: str):  # type: ignore[no-untyped-def]
        if name.startswith("rejects/"):
            name = next((self.path / "rejects").iterdir()).relative_to(self.path).as_posix()
        return super().open(name)
