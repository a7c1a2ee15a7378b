"""Scoring partitions in one worker, and what an actor does with them."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from qt_bert.cluster.faults import Attempt, Outcome, disk_fault, fault_of, is_fault, score_halving
from qt_bert.cluster.partition import Made, ScoreJob, make_part, open_model, texts_of
from qt_bert.cluster.places import place_of
from qt_bert.cluster.ray import Task
from qt_bert.cluster.record import Fault, How, Line, OutFile, rejects_table, to_text, versions
from qt_bert.cluster.rescue import make_alone
from qt_bert.cluster.storage import part_file, rejects_file
from qt_bert.data.pairs import Pair
from qt_bert.data.parts import FilePart
from qt_bert.errors import CheckpointError
from qt_bert.sources import source_hash

# Scoring partitions in one worker: in this process, or apart where workers died of a partition.


PATIENCE = 2
"""Workers that may die of a partition in the ordinary way; the next one scores it apart."""


class PartitionScorer:
    """Scores partitions of a prepared job, with the model open all the time.

    What is written depends on the partition alone, whatever was scored before it. `limit` is entered
    around the scoring of each in this process: it may end it. Raises as `open_model` does.
    """

    def __init__(
        self,
        job: ScoreJob,
        *,
        limit: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.job = job
        self._limit = limit
        self.model = open_model(job)
        self._out = place_of(job.out)

    def score(self, part: FilePart) -> Line | Fault:
        """Score a partition and leave its part file and the list of its rejects in the run folder.

        A fault of the input, the disk, the memory or the model is returned, never raised, and leaves
        neither file. A partition that two workers died of is scored in a process apart.
        """
        name, started = part.name(), time.monotonic()
        try:
            attempt = Attempt.begin(self._out, name)
        except OSError as error:
            return disk_fault(error, str(self._out), name)
        try:
            said = self._said(part, attempt, started)
        except KeyboardInterrupt:  # told to stop; whatever else gets through counts as a death
            self._end(attempt, finished=False)
            raise
        self._end(attempt, finished=isinstance(said, Line))
        return said

    def _end(self, attempt: Attempt, *, finished: bool) -> None:
        with suppress(OSError):  # a mark too many costs time, and no row
            attempt.finish() if finished else attempt.give_up()

    def _said(self, part: FilePart, attempt: Attempt, started: float) -> Line | Fault:
        apart = attempt.deaths >= PATIENCE
        try:
            made = make_alone(part, self.job, attempt.number) if apart else self._made(part)
        except BaseException as error:
            if not is_fault(error):
                raise
            return fault_of(error, part.name(), attempt.number)
        if isinstance(made, Fault):
            return made
        try:
            stored = self._store(part, made)
        except OSError as error:
            self._remove(part)
            return disk_fault(error, str(self._out), part.name(), attempt.number)
        how: How = "alone" if apart else "halved" if made.halved else "whole"
        return self._line(part, made, stored, attempt, how, time.monotonic() - started)

    def _made(self, part: FilePart) -> Made:
        with self._limit():
            return make_part(part, self.job, self._outcome, self.model.outputs)

    def _outcome(self, pairs: Sequence[Pair]) -> Outcome:
        return score_halving(texts_of(pairs), self.model.answer, self.model.trial)

    def _store(self, part: FilePart, made: Made) -> OutFile | None:
        """Write what was made; what an earlier attempt left of it goes."""
        name = part.name()
        if made.rejects:
            self._out.write(rejects_file(name), rejects_table(part.file, made.rejects))
        else:
            self._out.delete(rejects_file(name))
        if made.table is None:
            self._out.delete(part_file(name))
            return None
        self._out.write(part_file(name), made.table)
        digest = hashlib.sha256(made.table).hexdigest()
        return OutFile(name=part_file(name), bytes=len(made.table), sha256=digest)

    def _remove(self, part: FilePart) -> None:
        for name in (part_file(part.name()), rejects_file(part.name())):
            with suppress(OSError):
                self._out.delete(name)

    def _line(
        self,
        part: FilePart,
        made: Made,
        stored: OutFile | None,
        attempt: Attempt,
        how: How,
        seconds: float,
    ) -> Line:
        return Line(
            partition=part.name(),
            file=part.file,
            first=part.first,
            rows=part.rows,
            input_sha256=part.sha256,
            model_sha256=self.model.sha256,
            pairs=made.pairs,
            reasons=made.reasons,
            truncated_titles=made.tally.truncated_titles,
            truncated_queries=made.tally.truncated_queries,
            bad_grades=made.bad_grades,
            states=made.tally.states,
            part=stored,
            seconds=round(seconds, 3),
            node=platform.node(),
            attempt=attempt.number,
            how=how,
        )


# What an actor does in a scoring run: parts come as text, lines and faults go back as text.


def score_task(job: ScoreJob) -> Task:
    """The task of scoring the parts of a prepared job."""
    return Task(ScoreWorker, {"job": job.describe(), "program": program()}, fault_text)


def item_of(part: FilePart) -> str:
    """A part as the worker reads it."""
    return json.dumps(part.describe())


def program() -> dict[str, str]:
    """The versions that have to be the same on all machines, by name."""
    return versions() | {"source of qt-bert": source_hash()}


def fault_text(item: str, error: BaseException) -> str:
    """What a worker says of a part for which it raised, or which it was not opened to score."""
    return to_text(fault_of(error, FilePart.from_json(json.loads(item)).name()))


class ScoreWorker:
    """Scores parts of a job; it refuses to be another program than the driver's.

    A part that takes longer than the job's `stall` seconds kills its process, so that it is found
    out as one that kills. Raises CheckpointError and whatever opening the model raises.
    """

    def __init__(self, job: Mapping[str, Any], program: Mapping[str, str]) -> None:
        refuse_other_program(program)
        pass

        wanted = ScoreJob.from_json(dict(job))
        self._scorer = PartitionScorer(wanted, limit=lambda: _deadline(wanted.stall))

    def answer(self, item: str) -> str:
        """Score a part; a line or a fault."""
        return to_text(self._scorer.score(FilePart.from_json(json.loads(item))))


def refuse_other_program(wanted: Mapping[str, str]) -> None:
    """Raise CheckpointError, naming what differs, where this machine has another program."""
    mine = program()
    if other := [name for name in wanted if mine.get(name) != wanted[name]]:
        raise CheckpointError(
            f"this machine has another version of {', '.join(other)} than the one that began the "
            "run; install the same on all, and go on with --resume"
        )


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """End this process where the block takes longer, even if it never lets go of the interpreter."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
