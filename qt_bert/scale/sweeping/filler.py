"""The driver of a sweep in shards: hands them out, and puts what comes back in its place."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np

from qt_bert.ablation.run_sweep import SweepInputs
from qt_bert.ablation.shard_folder import shard_line, shard_logits
from qt_bert.ablation.work import Mark, SweepWork
from qt_bert.errors import RunFolderError
from qt_bert.files import read_json
from qt_bert.progress import Progress
from qt_bert.scale.cluster.cluster import EngineError
from qt_bert.scale.sweeping.job import SweepJob
from qt_bert.scale.sweeping.shards import (
    SHARD_RUNS,
    Shard,
    ShardFault,
    ShardLine,
    cut_shards,
    said_from_json,
)

ROUNDS = 3
"""How many rounds in a row may bring no shard, before the sweep stops."""

Dispatch = Callable[[SweepJob, Sequence[Shard]], Generator[ShardLine | ShardFault, None, None]]
"""Has shards computed, by a `ShardSweeper` each worker; what they say comes back in any order.
EngineError where it gives up."""


@dataclass(frozen=True)
class ShardFiller:
    """A `Filler` of `run_sweep` that has the batches computed in shards.

    `model` is where the workers find the checkpoint (default: where the driver opened it), `cache`
    where a machine keeps a copy of it; a shard has about `runs` runs.

    It raises as `SweepJob.of`; the error that a worker met, at once; RunFolderError where shards do
    not come back whole however often they are handed out. What was finished is kept.
    """

    dispatch: Dispatch
    model: str | None = None
    cache: str | None = None
    runs: int = SHARD_RUNS

    def __call__(self, inputs: SweepInputs, work: SweepWork, shown: Progress) -> None:
        """Fill in the logits that `work` lacks; `shown` counts the runs."""
        job = SweepJob.of(inputs, work.path, model=self.model, cache=self.cache)
        made = (batch.rows.tolist() for batch in inputs.batches())
        shards = cut_shards(made, len(inputs.variants), self.runs)
        assembly = Assembly(job, work, shards)
        runs = len(inputs.variants)
        shown.advance(runs * assembly.take_stored())
        idle = 0
        while missing := assembly.missing():
            failure = self._hand_out(
                job, missing, lambda line: shown.advance(runs * assembly.take(line))
            )
            idle = 0 if len(assembly.missing()) < len(missing) else idle + 1
            if idle == ROUNDS:
                raise assembly.given_up(failure)

    def _hand_out(
        self, job: SweepJob, shards: Sequence[Shard], take: Callable[[ShardLine], None]
    ) -> EngineError | None:
        """One round; why it ended early."""
        try:
            with closing(self.dispatch(job, shards)) as answers:
                for said in answers:
                    if isinstance(said, ShardFault):
                        raise said.raised()
                    take(said)
        except EngineError as error:
            return error
        return None


@dataclass(eq=False)
class Assembly:
    """Puts the logits of finished shards into those of the sweep, in whatever order they come.

    The mark of the sweep knows only batches in a row, as a plain sweep leaves it. So a shard's file
    stays until the mark has passed it, and a kill loses nothing.
    """

    job: SweepJob
    work: SweepWork
    shards: Sequence[Shard]
    _ends: list[int] = field(init=False)
    _taken: set[int] = field(init=False)
    _refused: dict[int, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._ends = list(accumulate(len(shard.rows) for shard in self.shards))
        self._begun = self.work.done.pairs
        self._taken = {s.number for s in self.shards if s.end <= self.work.done.batches}
        self._next = len(self._taken)

    def missing(self) -> list[Shard]:
        """The shards whose logits are not in their place yet."""
        return [shard for shard in self.shards if shard.number not in self._taken]

    def take_stored(self) -> int:
        """Take every shard that a stopped run left whole; how many pairs these are."""
        return sum(self._take_stored(shard.number) for shard in self.missing())

    def take(self, line: ShardLine) -> int:
        """Put a finished shard's logits in their place; how many pairs these are.

        0 where it has been taken before, or where what lies in the folder is not what the line says:
        then it is missing still.
        """
        number = line.number
        if not 0 <= number < len(self.shards) or number in self._taken:
            return 0
        try:
            logits = self._read(line)
        except (OSError, ValueError, RunFolderError) as error:
            self._refused[number] = str(error)
            return 0
        self.work.write(np.array(self.shards[number].rows), logits)
        self._taken.add(number)
        self._advance()
        start = self._ends[number] - len(self.shards[number].rows)
        return self._ends[number] - max(start, self._begun)

    def given_up(self, failure: EngineError | None) -> RunFolderError:
        """What to raise where nothing came back `ROUNDS` times: the first missing shard, and why."""
        missing = self.missing()
        refused = self._refused.get(missing[0].number, "no worker finished it")
        why = f"Ray gave up: {failure}" if failure else refused
        return RunFolderError(
            f"{self.work.path}: {len(missing):,} shards are missing, and {ROUNDS} rounds in a row "
            f"brought none; the first is number {missing[0].number} ({why}); --resume goes on with "
            "them"
        )

    def _take_stored(self, number: int) -> int:
        path = shard_line(self.work.path, number)
        try:
            said = said_from_json(read_json(path), str(path))
        except (OSError, ValueError, RecursionError, RunFolderError):
            return 0  # not there, or damaged: the shard is computed again
        return self.take(said) if isinstance(said, ShardLine) else 0

    def _read(self, line: ShardLine) -> np.ndarray:
        """The logits [V, rows, K] of a line. Raises RunFolderError where they are not its own."""
        path = shard_logits(self.work.path, line.number)
        rows = self.shards[line.number].rows
        if line.job != self.job.identity or line.rows != rows:
            raise RunFolderError(f"{path}: of another sweep")
        found = path.read_bytes()
        if hashlib.sha256(found).hexdigest() != line.sha256:
            raise RunFolderError(f"{path}: damaged")
        logits: np.ndarray = np.load(io.BytesIO(found), allow_pickle=False)
        variants, _, outputs = self.work.record.shape
        if (logits.shape, logits.dtype) != ((variants, len(rows), outputs), np.float32):
            raise RunFolderError(f"{path}: holds {logits.dtype} {logits.shape}")
        return logits

    def _advance(self) -> None:
        """Move the mark behind the shards that are in place in a row, and remove their files."""
        first = self._next
        while self._next in self._taken:
            self._next += 1
        if self._next == first:
            return
        last = self._next - 1
        self.work.mark(Mark(self.shards[last].end, self._ends[last]))
        for number in range(first, self._next):
            _remove(self.work.path, number)


def _remove(sweep: Path, number: int) -> None:
    """The line first: logits without one are not taken."""
    shard_line(sweep, number).unlink(missing_ok=True)
    shard_logits(sweep, number).unlink(missing_ok=True)
