"""Partitions that workers died of: the throw-away process, and the way to the rows that kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.cluster import rescue
from qt_bert.cluster.faults import Attempt, Tally, fault
from qt_bert.cluster.partition import Made, ScoreJob
from qt_bert.cluster.places import place_of
from qt_bert.cluster.record import Fault, Line
from qt_bert.cluster.rescue import Notes, Request, Row, Throwaway
from qt_bert.cluster.storage import notes_file
from qt_bert.codec import encode
from qt_bert.scoring.tables import InputColumns
from tests.cluster.planted import ROOT, job_of, parts_of, write_pairs
from tests.cluster.rays import are_gone, waited

JOB = ScoreJob(model="m", out="o", columns=InputColumns(False, ()), stall=5.0)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Processes apart find the planted scorers as this one does, wherever it works."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)


# The way to the rows that kill, with processes that are only played.


@dataclass
class Stage:
    """Plays processes: `whole_dies` of them die at once, rows in `deadly` kill, `stages` are recorded."""

    lines: Sequence[int]
    deadly: frozenset[int] = frozenset()
    whole_dies: int = 0
    given_dies: bool = False
    between: set[int] = field(default_factory=set)
    moody: set[int] = field(default_factory=set)
    dies_at_once: bool = False
    fault: Fault | None = None
    asked: list[tuple[str, int]] = field(default_factory=list)
    given: list[int] = field(default_factory=list)

    def __call__(self, request: Request, folder: Path) -> Played:
        self.asked.append((request.task, request.after))
        return Played(self, request)

    def says(self, request: Request) -> Iterator[dict[str, Any]]:
        yield {"alive": True}
        if self.fault:
            yield {"fault": self.fault.describe()}
        elif request.task == "rows":
            yield from self._rows(request)
        elif not self._dies(request.task):
            self.given = [row.line for row in request.given]
            Path(request.table).write_bytes(b"table")
            yield {"made": encode(self._made(request))}

    def _dies(self, task: str) -> bool:
        self.whole_dies -= task == "whole"
        return self.whole_dies >= 0 if task == "whole" else self.given_dies

    def _rows(self, request: Request) -> Iterator[dict[str, Any]]:
        if self.dies_at_once:
            return
        for line in self.lines:
            if line <= request.after or str(line) in request.spared:
                continue
            yield {"line": line}
            if line in self.deadly or line in self.moody:
                self.moody.discard(line)
                return
            yield {"row": encode(Row(line=line, logits=(1.0,), reason=None, tally=Tally()))}
            if line in self.between:
                return
        yield {"end": True}

    def _made(self, request: Request) -> Made:
        pairs = len(self.lines) - len(request.spared)
        return Made(None, (), pairs, 0, Tally(), halved=bool(request.spared))


@dataclass
class Played:
    stage: Stage
    request: Request
    death: str = "signal 9"

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *given: object) -> None:
        return None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.stage.says(self.request)

    def last_words(self) -> str:
        return ": the last words"


Play = Callable[..., Made | Fault]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Play:
    (part,) = parts_of(write_pairs(tmp_path / "day.tsv", ["a", "b", "c"]))

    def run(stage: Stage, out: str | None = None) -> Made | Fault:
        """In a run folder of its own, or in the one of an earlier attempt."""
        monkeypatch.setattr(rescue, "Throwaway", stage)
        folder = tempfile.mkdtemp(dir=tmp_path) if out is None else str(tmp_path / out)
        return rescue.make_alone(part, replace(JOB, out=folder), attempt=3)

    return run


def killers_of(stage: Stage, play: Play, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The rows that the last process was told to spare."""
    seen: list[dict[str, str]] = []
    says = Stage.says

    def spy(self: Stage, request: Request) -> Iterator[dict[str, Any]]:
        seen.append(request.spared)
        return says(self, request)

    monkeypatch.setattr(Stage, "says", spy)
    assert isinstance(play(stage), Made)
    return seen[-1]


def test_what_does_not_die_is_scored_whole(play: Play) -> None:
    stage = Stage(lines=[2, 3, 4])
    made = play(stage)
    assert isinstance(made, Made)
    assert (made.table, made.pairs) == (b"table", 3)
    assert stage.asked == [("whole", 0)]


def test_a_row_that_kills_twice_is_spared_and_the_rest_is_scored_whole(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lines=[2, 3, 4, 5], deadly=frozenset({3, 5}), whole_dies=1)
    reason = "kills the worker (signal 9)"
    assert killers_of(stage, play, monkeypatch) == {"3": reason, "5": reason}
    assert stage.asked == [
        ("whole", 0), ("rows", 0), ("rows", 2), ("rows", 2), ("rows", 4), ("rows", 4), ("whole", 4),
    ]  # fmt: skip


def test_a_row_that_was_there_once_when_a_process_died_is_not_blamed(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lines=[2, 3, 4], moody={3}, between={2, 4}, whole_dies=1)
    assert killers_of(stage, play, monkeypatch) == {}


def test_what_only_dies_of_many_rows_is_taken_row_by_row(play: Play) -> None:
    stage = Stage(lines=[2, 3, 4], deadly=frozenset({3}), whole_dies=2)
    made = play(stage)
    assert isinstance(made, Made)
    assert stage.asked[-2:] == [("whole", 4), ("given", 4)]
    assert stage.given == [2, 4]


def test_a_process_that_dies_before_any_row_is_a_fault(play: Play) -> None:
    found = play(Stage(lines=[2], whole_dies=1, dies_at_once=True))
    assert isinstance(found, Fault)
    assert (found.kind, found.again, found.attempt) == ("program", False, 3)
    assert "dies before it scores a row (signal 9: the last words)" in found.message


def test_a_hundred_rows_may_kill_and_no_more(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = range(2, 203)
    hundred = Stage(lines=lines, deadly=frozenset(range(50, 150)), whole_dies=1)
    assert len(killers_of(hundred, play, monkeypatch)) == 100
    found = play(Stage(lines=lines, deadly=frozenset(range(50, 151)), whole_dies=1))
    assert isinstance(found, Fault)
    assert found.kind == "program"
    assert "more than 100 of its rows kill the worker" in found.message


def test_what_is_not_the_rows_blames_none_at_the_next_attempt(play: Play) -> None:
    ill = Stage(lines=range(2, 203), deadly=frozenset(range(2, 203)), whole_dies=1)
    assert isinstance(play(ill, "out"), Fault)
    made = play(Stage(lines=range(2, 203)), "out")
    assert isinstance(made, Made) and made.pairs == 201


def test_what_an_attempt_found_out_is_known_to_the_next(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = frozenset({3, 5, 7})
    with monkeypatch.context() as patched:
        patched.setattr(rescue, "_MOST_DEATHS", 3)  # as where the worker is given up on the way
        assert isinstance(play(Stage(lines=range(2, 9), deadly=deadly, whole_dies=1), "out"), Fault)
    stage = Stage(lines=range(2, 9), deadly=deadly, whole_dies=1)
    made = play(stage, "out")
    assert isinstance(made, Made) and made.pairs == 4
    # Row 3 is a killer by now, and 5, of which a process died, is one with the next death.
    assert stage.asked == [
        ("whole", 0),
        *[("rows", 0), ("rows", 4)],
        *[("rows", 6)] * 2,
        ("whole", 8),
    ]


def test_notes_that_were_cut_short_are_none(play: Play, tmp_path: Path) -> None:
    for text in ("{", "[]", '{"suspect": 3}', '{"suspect": 3, "killers": {"x": 1}}'):
        out = Path(tempfile.mkdtemp(dir=tmp_path))
        notes = out / notes_file("p")
        notes.parent.mkdir()
        notes.write_text(text)
        found = Notes(place_of(str(out)), "p")
        assert (found.killers, found.suspect) == ({}, 0)


def test_processes_that_die_between_rows_have_an_end(play: Play) -> None:
    lines = range(2, 1002)
    found = play(Stage(lines=lines, between=set(lines), whole_dies=1))
    assert isinstance(found, Fault)
    assert "300 processes died of it" in found.message


def test_even_the_putting_together_may_die(play: Play) -> None:
    found = play(Stage(lines=[2], whole_dies=2, given_dies=True))
    assert isinstance(found, Fault)
    assert found.kind == "program"


def test_a_fault_that_the_process_says_is_the_fault(play: Play) -> None:
    said = fault("p", "input", "changed", again=False)
    assert play(Stage(lines=[2], fault=said)) == said


# The process itself, played by a few lines of Python.


def started(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str, stall: float) -> Throwaway:
    monkeypatch.setattr(rescue, "_COMMAND", [sys.executable, "-c", code])
    request = Request(
        job=replace(JOB, stall=stall), part={}, task="whole", table="t", parent=os.getpid()
    )
    return Throwaway(request, folder)


@pytest.mark.parametrize(
    ("code", "death"),
    [
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import os; os._exit(3)", "exit status 3"),
        ("pass", "exit status 0"),
    ],
)
def test_how_a_process_died(monkeypatch, tmp_path: Path, code: str, death: str) -> None:
    with started(monkeypatch, tmp_path, f"print('{{\"line\": 7}}', flush=True); {code}", 30) as one:
        assert list(one) == [{"line": 7}]
    assert one.death == death


def test_half_a_message_was_not_said(monkeypatch, tmp_path: Path) -> None:
    code = (
        "import sys; sys.stdout.write('{\"line\": 7}\\n{\"li'); sys.stderr.write('oh\\n no \\n\\n')"
    )
    with started(monkeypatch, tmp_path, code, 30) as one:
        assert list(one) == [{"line": 7}]
        assert one.last_words() == ": no"


def test_a_silent_process_is_killed(monkeypatch, tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    before = time.monotonic()
    with started(monkeypatch, tmp_path, code, 8) as one:
        (pid,) = list(one)
    assert one.death == "no sign of life for 8 seconds"
    assert time.monotonic() - before < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_signs_of_life_keep_a_slow_process_alive(monkeypatch, tmp_path: Path) -> None:
    code = "import time\nfor n in range(14): print(n, flush=True); time.sleep(0.5)"
    with started(monkeypatch, tmp_path, code, 5) as one:
        assert list(one) == list(range(14))
    assert one.death == "exit status 0"


def test_it_imports_what_this_process_does(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    code = "import json, sys; print(json.dumps(sys.path))"
    with started(monkeypatch, tmp_path, code, 30) as one:
        (path,) = list(one)
    assert str(tmp_path / "own") in path


def test_it_inherits_no_open_file_and_gets_the_request(monkeypatch, tmp_path: Path) -> None:
    code = (
        "import json, os, sys; asked = json.load(sys.stdin); "
        "print(json.dumps([asked['task'], asked['job']['model'], sorted(os.listdir('/proc/self/fd'))]))"
    )
    with open(tmp_path / "held", "w") as handle:
        os.set_inheritable(handle.fileno(), True)
        with started(monkeypatch, tmp_path, code, 30) as one:
            ((task, model, files),) = list(one)
    assert (task, model) == ("whole", "m")
    assert files == ["0", "1", "2", "3"]  # the last one is the listing


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells of a parent's death")
def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    child = (
        "import os, sys, time; from qt_bert.cluster.processes import die_with; "
        "die_with(int(sys.argv[1])); print(os.getpid(), flush=True); time.sleep(1000)"
    )
    parent = (
        "import os, subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', sys.argv[1], str(os.getpid())]).wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent, child], stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert waited(lambda: are_gone([pid]), 10)


def test_it_does_not_outlive_a_parent_that_is_gone_already() -> None:
    code = "from qt_bert.cluster.processes import die_with; die_with(1); print('lives')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, b"")


def test_its_voice_is_its_own() -> None:
    code = (
        "import os; from qt_bert.cluster.processes import own_voice; say = own_voice(); "
        "print('a library', flush=True); os.write(1, b'another'); say({'line': 2})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT)
    assert json.loads(done.stdout) == {"line": 2}
    assert done.stderr.splitlines() == [b"a library", b"another"]


# With a model, from the marks of two dead workers on.


def apart(job: ScoreJob, path: Path) -> Line | Fault:
    from qt_bert.cluster.worker import PartitionScorer

    (part,) = parts_of(path)
    for _ in range(2):
        Attempt.begin(place_of(job.out), part.name())
    return PartitionScorer(job).score(part)


def table_bytes(out: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((out / "parts").iterdir())]


def test_whole_and_apart_give_the_same_bytes(
    checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    from qt_bert.cluster.worker import PartitionScorer

    path = write_pairs(tmp_path / "p.tsv", ["猫追狗", "坏", " ", "高铁票价", "长" * 80])
    model, planted = checkpoint_of(), "tests.cluster.planted:raising"
    here, there = tmp_path / "here", tmp_path / "there"
    first = PartitionScorer(job_of(model, path, here, scorer=planted)).score(parts_of(path)[0])
    second = apart(job_of(model, path, there, scorer=planted), path)
    assert isinstance(first, Line) and isinstance(second, Line)
    assert (first.how, second.how, second.attempt) == ("halved", "alone", 3)
    assert table_bytes(here) == table_bytes(there)
    for name in ("pairs", "reasons", "part", "truncated_titles", "bad_grades"):
        assert getattr(first, name) == getattr(second, name)
    lists = [next((out / "rejects").iterdir()).read_bytes() for out in (here, there)]
    assert lists[0] == lists[1]
    assert not list((there / "begun").iterdir())


@pytest.mark.nightly
def test_a_fault_in_the_process_is_told(checkpoint_of: Callable[..., Path], tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "p.tsv", ["猫追狗"])
    job = job_of(checkpoint_of(), path, tmp_path / "out")
    (part,) = parts_of(path)
    path.write_text("another file\n", encoding="utf-8")
    found = rescue.make_alone(part, job, attempt=4)
    assert isinstance(found, Fault)
    assert (found.kind, found.attempt, found.partition) == ("input", 4, part.name())
    assert "changed since it was scanned" in found.message


@pytest.mark.nightly
def test_a_row_that_kills_is_rejected_and_the_others_are_scored(
    checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    from qt_bert.cluster.worker import PartitionScorer

    titles = ["猫追狗", "杀", "坏", "高铁票价"]
    path = write_pairs(tmp_path / "p.tsv", titles)
    rest = write_pairs(tmp_path / "rest.tsv", [title for title in titles if title != "杀"])
    model, out, planted = checkpoint_of(), tmp_path / "out", "tests.cluster.planted:killing"
    line = apart(job_of(model, path, out, scorer=planted), path)
    assert isinstance(line, Line)
    assert line.pairs == 2
    assert line.reasons == {
        "kills the worker (signal 9)": 1,
        "raises ValueError: this title is bad": 1,
    }
    plain = PartitionScorer(job_of(model, rest, tmp_path / "plain", scorer=planted))
    assert isinstance(plain.score(parts_of(rest)[0]), Line)
    columns = ["title", "p_1", "p_2", "p_3", "p_4", "p_5", "expected_grade"]
    assert _rows(out, columns) == _rows(tmp_path / "plain", columns)  # whole again: the same bits
    assert _rows(out, ["line"]) == [{"line": 2}, {"line": 5}]


@pytest.mark.nightly
def test_rows_that_kill_only_together_are_all_scored(
    checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_pairs(tmp_path / "p.tsv", ["猫追狗", " ", "高铁票价", "票"])
    planted = "tests.cluster.planted:killed_by_many"
    line = apart(job_of(checkpoint_of(), path, tmp_path / "out", scorer=planted), path)
    assert isinstance(line, Line)
    assert (line.pairs, line.reasons) == (3, {"empty title": 1})
    assert _rows(tmp_path / "out", ["line"]) == [{"line": 2}, {"line": 4}, {"line": 5}]


@pytest.mark.nightly
def test_a_row_that_hangs_is_rejected(checkpoint_of: Callable[..., Path], tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "p.tsv", ["停", "高铁票价"])
    planted = "tests.cluster.planted:hanging"
    job = job_of(checkpoint_of(), path, tmp_path / "out", scorer=planted, stall=20.0)
    line = apart(job, path)
    assert isinstance(line, Line)
    assert line.reasons == {"kills the worker (no sign of life for 20 seconds)": 1}
    assert line.pairs == 1


def _rows(out: Path, columns: list[str]) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    (file,) = (out / "parts").iterdir()
    return list(pq.read_table(file, columns=columns).to_pylist())
