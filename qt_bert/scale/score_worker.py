"""What an actor does in a scoring run: parts come as text, lines and faults go back as text."""

from __future__ import annotations

import faulthandler
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from qt_bert.errors import CheckpointError
from qt_bert.pairs.parts import Part
from qt_bert.scale.cluster.engine import Task
from qt_bert.scale.ledger.lines import to_text
from qt_bert.scale.ledger.record import versions
from qt_bert.scale.partition.faults import fault_of
from qt_bert.scale.partition.job import ScoreJob
from qt_bert.sources import source_hash


def score_task(job: ScoreJob) -> Task:
    """The task of scoring the parts of a prepared job."""
    return Task(ScoreWorker, {"job": job.describe(), "program": program()}, fault_text)


def item_of(part: Part) -> str:
    """A part as the worker reads it."""
    return json.dumps(part.describe())


def program() -> dict[str, str]:
    """The versions that have to be the same on all machines, by name."""
    return versions() | {"source of qt-bert": source_hash()}


def fault_text(item: str, error: BaseException) -> str:
    """What a worker says of a part for which it raised, or which it was not opened to score."""
    return to_text(fault_of(error, Part.from_json(json.loads(item)).name()))


class ScoreWorker:
    """Scores parts of a job; it refuses to be another program than the driver's.

    A part that takes longer than the job's `stall` seconds kills its process, so that it is found
    out as one that kills. Raises CheckpointError and whatever opening the model raises.
    """

    def __init__(self, job: Mapping[str, Any], program: Mapping[str, str]) -> None:
        refuse_other_program(program)
        from qt_bert.scale.scorer import PartitionScorer

        wanted = ScoreJob.from_json(dict(job))
        self._scorer = PartitionScorer(wanted, limit=lambda: _deadline(wanted.stall))

    def answer(self, item: str) -> str:
        """Score a part; a line or a fault."""
        return to_text(self._scorer.score(Part.from_json(json.loads(item))))


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
