"""The driver's part: hands out what is missing, records what comes back, and knows when to stop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

from qt_bert.errors import CheckpointError, PairFileError, QtBertError, RunFolderError
from qt_bert.pairs.parts import Part
from qt_bert.progress import Progress
from qt_bert.scale.cluster.cluster import EngineError
from qt_bert.scale.ledger.ledger import Ledger
from qt_bert.scale.ledger.lines import Fault, Line, from_text

Dispatch = Callable[[Sequence[Part]], Generator[str, None, None]]
"""Has parts scored, and gives what is said of them, in any order; EngineError where it gives up."""

_HELD_SECONDS = 10.0
"""Where each record is a file of its own, lines wait so long for others to come along."""

_ERRORS: dict[str, type[QtBertError]] = {"input": PairFileError, "model": CheckpointError}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a partition with a fault that may pass is handed out, and how many rounds in a row may
    fail without a partition done: two may go to one that hangs, before it is scored apart."""

    attempts: int = 3
    idle_rounds: int = 3

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass
class Filling:
    """One run's work: `round` partitions at a time go to `dispatch`."""

    ledger: Ledger
    dispatch: Dispatch
    round: int
    shown: Progress
    patience: Patience = Patience()
    _faults: Counter[str] = field(default_factory=Counter)
    _known: set[str] = field(default_factory=set)
    _held: list[Line] = field(default_factory=list)
    _flushed: float = 0.0

    def fill(self) -> None:
        """Until nothing is missing.

        Raises the error that a fault is: at once, or where it may pass when it comes again and again;
        RunFolderError where the engine gives up again and again; whatever the ledger raises. What was
        done is recorded in any case.
        """
        idle = 0
        while missing := self.ledger.missing():
            before = self.ledger.rows_done
            failure = self._hand_out(missing[: self.round])
            idle = 0 if self.ledger.rows_done > before else idle + 1
            if idle >= self.patience.idle_rounds:
                raise RunFolderError(self._given_up(idle, failure))

    def _hand_out(self, parts: Sequence[Part]) -> EngineError | None:
        try:
            with closing(self.dispatch(parts)) as answers:
                for text in answers:
                    self._take(text)
        except EngineError as error:
            return error
        finally:
            self._flush()
        return None

    def _take(self, text: str) -> None:
        said = from_text(text, "what a worker said")
        if isinstance(said, Fault):
            self._judge(said)
            return
        self._held.append(said)
        if said.partition not in self._known:
            self._known.add(said.partition)
            self.shown.advance(said.rows)
        held = time.monotonic() - self._flushed
        if self.ledger.storage.appends or held > _HELD_SECONDS:
            self._flush()

    def _flush(self) -> None:
        lines, self._held = self._held, []
        self._flushed = time.monotonic()
        if lines:
            self.ledger.done(*lines)

    def _judge(self, fault: Fault) -> None:
        """Raise the error that a fault is, unless it may pass and has not come too often."""
        self._faults[fault.partition] += 1
        passing = fault.again and fault.kind != "disk"
        if passing and self._faults[fault.partition] < self.patience.attempts:
            return
        raise _ERRORS.get(fault.kind, RunFolderError)(self._words(fault))

    def _words(self, fault: Fault) -> str:
        times = self._faults[fault.partition]
        often = f", {times} times" if times > 1 else ""
        text = f"{fault.message} (on {fault.node}{often}); {self._so_far()}"
        advice = {
            "memory": "memory ran out: give fewer --actors, and go on with --resume",
            "input": "see to the file and go on with --resume, or start anew with --overwrite",
        }
        if "--resume" in fault.message:
            return text
        known = "--overwrite" in fault.message
        return (
            f"{text}; {'--resume goes on' if known else advice.get(fault.kind, '--resume goes on')}"
        )

    def _given_up(self, idle: int, failure: EngineError | None) -> str:
        why = f"Ray gave up: {failure}" if failure else "no worker finished a partition"
        return (
            f"{self.ledger.storage}: {why} ({idle} rounds in a row); {self._so_far()}; see to the "
            "cluster, and --resume goes on"
        )

    def _so_far(self) -> str:
        return f"{self.ledger.rows_done:,} of {self.ledger.record.rows:,} rows are done"
