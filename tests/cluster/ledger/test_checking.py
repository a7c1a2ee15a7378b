"""What resuming makes of files that are missing, cut short, changed, or left over."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from qt_bert.cluster.storage import LocalStorage, part_file, rejects_file
from qt_bert.data.parts import FilePart
from qt_bert.errors import RunFolderError
from tests.cluster.ledger_runs import (
    Killed,
    Mortal,
    complete,
    contents,
    open_run,
    parquet,
    some_parts,
    work,
)

PARTS = some_parts(3)
REJECTED = {2: 1, 6: 1, 10: 2}


def _part(out: Path, part: FilePart = PARTS[1]) -> Path:
    return out / part_file(part.name())


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[6] ^= 1
    path.write_bytes(data)


def _break_footer(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4] + b"????")


HARMS = [
    (Path.unlink, "is missing"),
    (_cut, "bytes, where"),
    (_flip, "has other bytes than were stored"),
    (_break_footer, "has other bytes than were stored"),
]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(("harm", "said"), HARMS)
def test_a_harmed_part_is_made_again(
    tmp_path: Path, harm: Callable[[Path], None], said: str, finished: bool
) -> None:
    ledger = open_run(tmp_path, PARTS)
    for part in PARTS:
        ledger.done(work(tmp_path, part, REJECTED[part.first]))
    wanted = contents(tmp_path)
    if finished:
        ledger.finish()
        wanted = contents(tmp_path)
    harm(_part(tmp_path))
    again = open_run(tmp_path, PARTS, resume=True)
    assert again.missing() == [PARTS[1]]
    assert again.rows_done == 8
    assert list(again.put_back) == [PARTS[1].name()]
    assert said in again.put_back[PARTS[1].name()]
    assert not _part(tmp_path).exists()
    assert not json.loads((tmp_path / "run.json").read_text())["complete"]
    again.done(work(tmp_path, PARTS[1], 1))
    if finished:
        again.finish()
    assert contents(tmp_path) == wanted


@pytest.mark.parametrize(
    ("data", "words"),
    [(parquet(3), "has 3 rows, where 4 were stored"), (b"no table", "is no table")],
)
def test_a_part_of_other_rows_is_made_again(tmp_path: Path, data: bytes, words: str) -> None:
    import hashlib
    from dataclasses import replace

    ledger = open_run(tmp_path, PARTS[:1])
    line = work(tmp_path, PARTS[0])
    _part(tmp_path, PARTS[0]).write_bytes(data)
    assert line.part is not None
    digest = hashlib.sha256(data).hexdigest()
    ledger.done(replace(line, part=replace(line.part, bytes=len(data), sha256=digest)))
    (said,) = open_run(tmp_path, PARTS, resume=True).put_back.values()
    assert words in said


def test_a_file_that_cannot_be_read_for_a_moment_is_not_given_up(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    for part in PARTS:
        ledger.done(work(tmp_path, part, REJECTED[part.first]))
    unfinished = contents(tmp_path)
    for harmed in ("parts/", "rejects/"):
        with pytest.raises(RunFolderError, match="cannot be read .*Input/output.*--resume goes on"):
            open_run(Flaky(tmp_path, harmed), PARTS, resume=True)
        assert contents(tmp_path) == unfinished
    ledger.finish()
    finished = contents(tmp_path)
    with pytest.raises(RunFolderError, match="cannot be read .*Input/output.*--resume goes on"):
        open_run(Flaky(tmp_path, "rejects.tsv"), PARTS, resume=True)
    assert contents(tmp_path) == finished
    assert open_run(tmp_path, PARTS, resume=True).missing() == []


@dataclass(frozen=True)
class Flaky(LocalStorage):
    """A network that fails for files of one kind."""

    harmed: str

    def open(self, name: str) -> BinaryIO:
        if name.startswith(self.harmed):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().open(name)


def test_a_name_that_is_gone_meanwhile_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the listing and the look at its size a temporary file gets its own name."""
    complete(open_run(tmp_path, PARTS), tmp_path, REJECTED)
    (tmp_path / "parts" / ".part-x.tmp").write_bytes(b"")
    listing = os.scandir

    def scandir(folder: Path) -> Any:
        with listing(folder) as found:
            entries = list(found)
        (tmp_path / "parts" / ".part-x.tmp").unlink(missing_ok=True)
        return nullcontext(iter(entries))

    monkeypatch.setattr(os, "scandir", scandir)
    assert len(LocalStorage(tmp_path).sizes("parts")) == 3


def test_without_rejects_a_lost_line_costs_its_partition_alone(tmp_path: Path) -> None:
    complete(open_run(tmp_path, PARTS), tmp_path, {})
    wanted = contents(tmp_path)
    (stored,) = (tmp_path / "manifest").iterdir()
    lines = stored.read_bytes().splitlines(keepends=True)
    stored.write_bytes(b"".join([lines[0], lines[2]]))
    again = open_run(tmp_path, PARTS, resume=True)
    assert again.missing() == [PARTS[1]]
    complete(again, tmp_path, {})
    assert contents(tmp_path) == wanted


@pytest.mark.parametrize(
    ("left", "rejected", "gone"), [(0, {}, 3), (0, REJECTED, 3), (2, REJECTED, 1)]
)
def test_a_finished_run_whose_lines_are_gone_is_left_alone(
    tmp_path: Path, left: int, rejected: dict[int, int], gone: int
) -> None:
    """Whose rejects are whose cannot be told without all lines, nor which parts are whole."""
    complete(open_run(tmp_path, PARTS), tmp_path, rejected)
    (stored,) = (tmp_path / "manifest").iterdir()
    stored.write_bytes(b"".join(stored.read_bytes().splitlines(keepends=True)[:left]))
    before = contents(tmp_path)
    with pytest.raises(
        RunFolderError, match=f"the lines of {gone} of 3 partitions .* are gone; put"
    ):
        open_run(tmp_path, PARTS, resume=True)
    assert contents(tmp_path) == before


def test_a_lost_list_of_rejects_is_made_again(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    for part in PARTS:
        ledger.done(work(tmp_path, part, REJECTED[part.first]))
    (tmp_path / rejects_file(PARTS[0].name())).unlink()
    _drop_last_row(tmp_path / rejects_file(PARTS[2].name()))
    again = open_run(tmp_path, PARTS, resume=True)
    assert again.missing() == [PARTS[0], PARTS[2]]
    lost, short = again.put_back.values()
    assert lost.endswith("is missing")
    assert short.endswith("holds 1 rejects, where 2 were found")


def _drop_last_row(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def test_a_changed_list_of_all_rejects_costs_the_partitions_that_have_some(tmp_path: Path) -> None:
    complete(open_run(tmp_path, PARTS), tmp_path, {6: 1})
    wanted = contents(tmp_path)
    _flip(tmp_path / "rejects.tsv")
    again = open_run(tmp_path, PARTS, resume=True)
    assert again.put_back == {PARTS[1].name(): "rejects.tsv is missing or was changed"}
    complete(again, tmp_path, {6: 1})
    assert contents(tmp_path) == wanted


def test_a_kill_while_a_finished_run_is_taken_apart(tmp_path: Path) -> None:
    """The lists of rejects come back out of the one list, and none is lost wherever it stops."""
    at, ended = 0, False
    while not ended:
        out = tmp_path / str(at)
        complete(open_run(out, PARTS), out, REJECTED)
        wanted = contents(out)
        _cut(_part(out))
        try:
            open_run(Mortal(out, at=at), PARTS, resume=True)
            ended = True
        except Killed:
            pass
        again = open_run(out, PARTS, resume=True)
        assert again.missing() == [PARTS[1]], f"killed at change {at}"
        complete(again, out, REJECTED)
        assert contents(out) == wanted, f"killed at change {at}"
        at += 1
    assert at > 4


def test_leftovers_of_killed_workers_are_removed(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    ledger.done(work(tmp_path, PARTS[0], 1))
    work(tmp_path, PARTS[1], 1)  # killed before its line arrived
    wanted = contents(tmp_path)
    for name in (part_file(PARTS[1].name()), rejects_file(PARTS[1].name())):
        del wanted[name]
    mark = f"begun/{PARTS[2].name()}.1"
    for name in ("parts/.part-x.parquet.12.tmp", "rejects/.x.tsv.12.tmp", ".run.json.12.tmp", mark):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "parts" / "mine.csv").write_bytes(b"mine")
    again = open_run(tmp_path, PARTS, resume=True)
    # Deaths are counted over resumed runs, too.
    assert contents(tmp_path) == wanted | {"parts/mine.csv": b"mine", mark: b""}
    complete(again, tmp_path, {})
    assert not (tmp_path / "begun").exists()


def test_what_a_kill_behind_the_end_left_is_removed(tmp_path: Path) -> None:
    complete(open_run(tmp_path, PARTS), tmp_path, REJECTED)
    wanted = contents(tmp_path)
    (tmp_path / "rejects").mkdir()
    (tmp_path / rejects_file(PARTS[0].name())).write_text("half")
    assert open_run(tmp_path, PARTS, resume=True).record.complete
    assert contents(tmp_path) == wanted


def test_a_part_cut_short_behind_its_line_is_seen_at_the_end(tmp_path: Path) -> None:
    ledger = open_run(tmp_path, PARTS)
    for part in PARTS:
        ledger.done(work(tmp_path, part))
    _cut(_part(tmp_path))
    with pytest.raises(RunFolderError, match="1 parts are not what was stored.*--resume"):
        ledger.finish()
    complete(open_run(tmp_path, PARTS, resume=True), tmp_path, {})
