"""Scoring partitions in one worker: in this process, or apart where workers died of a partition."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from qt_bert.pairs import Pair
from qt_bert.pairs.parts import Part
from qt_bert.scale.apart.rescue import make_alone
from qt_bert.scale.ledger.layout import part_file, rejects_file
from qt_bert.scale.ledger.lines import Fault, How, Line, OutFile
from qt_bert.scale.ledger.rejects import rejects_table
from qt_bert.scale.partition.attempts import Attempt
from qt_bert.scale.partition.faults import disk_fault, fault_of
from qt_bert.scale.partition.halving import Outcome, score_halving
from qt_bert.scale.partition.job import ScoreJob
from qt_bert.scale.partition.made import Made, make_part, texts_of
from qt_bert.scale.partition.model import open_model
from qt_bert.scale.partition.raised import is_fault
from qt_bert.scale.places.naming import place_of

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

    def score(self, part: Part) -> Line | Fault:
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

    def _said(self, part: Part, attempt: Attempt, started: float) -> Line | Fault:
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

    def _made(self, part: Part) -> Made:
        with self._limit():
            return make_part(part, self.job, self._outcome, self.model.outputs)

    def _outcome(self, pairs: Sequence[Pair]) -> Outcome:
        return score_halving(texts_of(pairs), self.model.answer, self.model.trial)

    def _store(self, part: Part, made: Made) -> OutFile | None:
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

    def _remove(self, part: Part) -> None:
        for name in (part_file(part.name()), rejects_file(part.name())):
            with suppress(OSError):
                self._out.delete(name)

    def _line(
        self,
        part: Part,
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
