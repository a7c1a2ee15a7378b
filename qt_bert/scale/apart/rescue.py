"""A partition that workers died of: scored in processes that may die, without the rows that kill."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qt_bert.pairs.parts import Part
from qt_bert.results.codec import decode
from qt_bert.scale.apart.notes import Notes
from qt_bert.scale.apart.owned_folder import owned_folder
from qt_bert.scale.apart.request import Request, Row, Task
from qt_bert.scale.apart.throwaway import Throwaway
from qt_bert.scale.ledger.lines import Fault
from qt_bert.scale.partition.faults import fault
from qt_bert.scale.partition.job import ScoreJob
from qt_bert.scale.partition.made import Made
from qt_bert.scale.places.naming import place_of

MOST_KILLERS = 100
"""Rows of a partition that may kill; with more it is not the rows."""

_MOST_DEATHS = 3 * MOST_KILLERS


def make_alone(part: Part, job: ScoreJob, attempt: int = 1) -> Made | Fault:
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
    part: Part
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
