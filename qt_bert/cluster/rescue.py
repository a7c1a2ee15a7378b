"""A partition that workers died of: scored in throw-away processes, without the rows that kill."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from qt_bert.cluster.faults import Tally, fault
from qt_bert.cluster.partition import Made, ScoreJob
from qt_bert.cluster.places import Place, place_of
from qt_bert.cluster.processes import child_environment, ended_by, last_words, owned_folder
from qt_bert.cluster.record import Fault
from qt_bert.cluster.storage import notes_file
from qt_bert.codec import decode, encode
from qt_bert.data.parts import FilePart

# What a throw-away process is asked, and what it says of one row.


Task = Literal["whole", "rows", "given"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of the row at `line`: `logits` [K], or the reason why there are none."""

    line: int
    logits: tuple[float, ...] | None
    reason: str | None
    tally: Tally


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to do with `part`, as its own `describe` gives it.

    `whole` scores all rows but the `spared` ones (line → reason), `rows` one after the other behind
    the line `after`, `given` none: it takes what became of them before. A table goes to the file
    `table`. `parent` is the process that this one shall not outlive.
    """

    job: ScoreJob
    part: dict[str, Any]
    task: Task
    table: str
    parent: int
    attempt: int = 1
    after: int = 0
    spared: dict[str, str] = field(default_factory=dict)
    given: tuple[Row, ...] = ()


# What was found out of a partition that workers died of, kept for the worker after the next death.


@dataclass
class Notes:
    """The rows that kill, with the reason, and the one of which a process died once (0: none).

    A row that hangs costs the time of two stalls, and a worker that says nothing for long is given
    up: without notes the next one would begin again, and a partition with many would never end.
    """

    out: Place
    partition: str
    killers: dict[int, str] = field(default_factory=dict)
    suspect: int = 0

    def __post_init__(self) -> None:
        # There are none, or they were cut short.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            said = json.loads(self.out.read_text(notes_file(self.partition)))
            suspect = int(said["suspect"])
            self.killers = {int(line): str(reason) for line, reason in said["killers"].items()}
            self.suspect = suspect

    def died_at(self, line: int, reason: str) -> None:
        """A process died at a row (0: between two), which makes it suspect, or a killer."""
        if line and line == self.suspect:
            self.killers[line] = reason
        self.suspect = line
        said = {"killers": self.killers, "suspect": self.suspect}
        with suppress(OSError):
            self.out.write_text(notes_file(self.partition), json.dumps(said))

    def forget(self) -> None:
        """It is not the rows: the next attempt shall begin without blame."""
        with suppress(OSError):
            self.out.delete(notes_file(self.partition))


# Starting a throw-away process, listening to it, and saying how it died.


_COMMAND = [sys.executable, "-m", "qt_bert.cluster.alone"]
_READ = 1 << 16


class Throwaway:
    """A process that answers `request`; iterating gives what it says, up to its end.

    It inherits no open file but its three streams, which begin in `folder`, and is killed as the
    block is left. Then, or when it was silent for the job's `stall` seconds, `death` says how it
    ended. Raises OSError where it cannot be started.
    """

    def __init__(self, request: Request, folder: Path) -> None:
        self._stall = request.job.stall
        self._errors = folder / "errors.txt"
        asked = folder / "request.json"
        asked.write_text(json.dumps(encode(request)), encoding="ascii")
        with open(asked, "rb") as stdin, open(self._errors, "wb") as stderr:
            self._process = subprocess.Popen(
                _COMMAND,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=child_environment(),
                start_new_session=True,
            )
        self.death = ""

    def __enter__(self) -> Throwaway:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        out, rest = self._process.stdout, b""
        assert out is not None
        with selectors.DefaultSelector() as ready:
            ready.register(out, selectors.EVENT_READ)
            while ready.select(self._stall):
                if not (data := os.read(out.fileno(), _READ)):
                    self._see_it_end()
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from map(json.loads, lines)
        self.death = self._silent()

    def last_words(self) -> str:
        """`: ` and the last line that it wrote to standard error; nothing where there is none."""
        return last_words(self._errors.read_bytes())

    def _see_it_end(self) -> None:
        try:
            status = self._process.wait(self._stall)
        except subprocess.TimeoutExpired:
            self.death = self._silent()
        else:
            self.death = ended_by(status)

    def _silent(self) -> str:
        return f"no sign of life for {self._stall:g} seconds"

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


# A partition that workers died of: scored in processes that may die, without the rows that kill.


MOST_KILLERS = 100
"""Rows of a partition that may kill; with more it is not the rows."""

_MOST_DEATHS = 3 * MOST_KILLERS


def make_alone(part: FilePart, job: ScoreJob, attempt: int = 1) -> Made | Fault:
    """Score `part` in throw-away processes.

    First whole, in the same pieces as in any worker, so with the same bits. If that process dies,
    row by row: a row that a process dies of twice is rejected as `kills the worker (signal 9)`. Then
    the other rows whole again; and if even that dies, as they were scored one by one. What is found
    out is noted in the run folder, for an attempt after this one.

    A fault where processes die before any row, or of more than 100 rows; OSError where none can be
    started.
    """
    with owned_folder() as folder:
        notes = Notes(place_of(job.out), part.name())
        return _Rescue(part, job, attempt, folder, notes).made()


@dataclass
class _Rescue:
    part: FilePart
    job: ScoreJob
    attempt: int
    folder: Path
    notes: Notes
    rows: dict[int, Row] = field(default_factory=dict)
    death: str = ""

    def made(self) -> Made | Fault:
        """The table and the rejects, or why there are none."""
        return (
            self._table("whole")
            or self._find_killers()
            or self._table("whole")
            or self._table("given")
            or self._fault("a process apart dies of putting its rows together")
        )

    def _table(self, task: Task) -> Made | Fault | None:
        """What a process made of all rows but the killers; None where it died."""
        self._file.unlink(missing_ok=True)
        with self._process(task) as process:
            for message in process:
                if "fault" in message:
                    return Fault.from_json(message["fault"])
                if "made" in message:
                    made: Made = decode(Made, message["made"], "what a process made")
                    return replace(made, table=self._file.read_bytes()) if made.pairs else made
            self.death = f"{process.death}{process.last_words()}"
        return None

    def _find_killers(self) -> Fault | None:
        """Score row by row, and write down those that a process dies of twice."""
        for _ in range(_MOST_DEATHS):
            known, at = len(self.rows), 0
            with self._process("rows") as process:
                for message in process:
                    if "fault" in message:
                        return Fault.from_json(message["fault"])
                    if "end" in message:
                        return None
                    at = self._heard(message, at)
                self.death = f"{process.death}{process.last_words()}"
            if not at and len(self.rows) == known:
                return self._fault("a process apart dies before it scores a row")
            self.notes.died_at(at, f"kills the worker ({process.death})")
            if len(self.notes.killers) > MOST_KILLERS:
                self.notes.forget()
                return self._fault(f"more than {MOST_KILLERS} of its rows kill the worker")
        return self._fault(f"{_MOST_DEATHS} processes died of it")

    def _heard(self, message: dict[str, Any], at: int) -> int:
        """The line that is being scored, 0 between two."""
        if "row" in message:
            row: Row = decode(Row, message["row"], "what a process said")
            self.rows[row.line] = row
            return 0
        return int(message.get("line", at))

    def _process(self, task: Task) -> Throwaway:
        request = Request(
            job=self.job,
            part=self.part.describe(),
            task=task,
            table=str(self._file),
            parent=os.getpid(),
            attempt=self.attempt,
            after=max(self.rows, default=0),
            spared={str(line): reason for line, reason in self.notes.killers.items()},
            given=tuple(self.rows.values()) if task == "given" else (),
        )
        return Throwaway(request, self.folder)

    @property
    def _file(self) -> Path:
        return self.folder / "part.parquet"

    def _fault(self, what: str) -> Fault:
        where = f"{self.part.file}, partition {self.part.name()}"
        message = f"{where}: {what} ({self.death})"
        return fault(self.part.name(), "program", message, again=False, attempt=self.attempt)
