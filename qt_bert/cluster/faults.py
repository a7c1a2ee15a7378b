"""Faults of a partition in words; rows that cannot be scored, found by halving."""

from __future__ import annotations

import errno
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qt_bert.cluster.places import Place
from qt_bert.cluster.record import Fault, FaultKind, StatesRead
from qt_bert.cluster.storage import BEGUN, notes_file
from qt_bert.errors import PairFileError, QtBertError

# What an error says, where any may come: a reason in a few words, and whether memory was short.


REASON_CHARACTERS = 120

_NO_MEMORY = re.compile(r"can't allocate memory|not enough memory|out of memory|bad_alloc", re.I)


def reason_of(error: BaseException) -> str:
    """`raises TYPE: first line`, at most 120 characters, whole ones, on one line."""
    lines = str(error).strip().splitlines()
    text = f"raises {type(error).__name__}" + (f": {lines[0]}" if lines else "")
    return plain(text)[:REASON_CHARACTERS]


def is_fault(error: BaseException) -> bool:
    """Whether an error is a fault of what was done, and no wish to stop.

    A panic of the tokenizer, which is Rust, is no Exception in Python.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def lacks_memory(error: BaseException) -> bool:
    """Whether an allocation failed, in Python or below it: torch raises plain RuntimeErrors."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None
    )


def plain(text: str) -> str:
    """`text` on one line, in characters that every file can hold."""
    return "".join(one if one.isprintable() else " " for one in text)


# Scoring rows so that one that cannot be scored costs itself alone: halves, down to single rows.


NOT_FINITE = "no finite logits"

Texts = Sequence[tuple[str, str]]
"""Queries and titles."""


class WorkerIll(QtBertError):
    """Rows that could be scored before cannot be any more: it is not the rows. `memory`: for want of it."""

    def __init__(self, message: str, *, memory: bool) -> None:
        super().__init__(message)
        self.memory = memory


@dataclass(frozen=True)
class Tally:
    """What was cut of the rows that the model has seen, and how it came by their titles' states."""

    truncated_titles: int = 0
    truncated_queries: int = 0
    states: StatesRead | None = None

    def __add__(self, other: Tally) -> Tally:
        titles = self.truncated_titles + other.truncated_titles
        queries = self.truncated_queries + other.truncated_queries
        return Tally(titles, queries, _sum(self.states, other.states))


@dataclass(frozen=True, eq=False)
class Answer:
    """What the model gives for n rows: `logits` [n, K]."""

    logits: np.ndarray
    tally: Tally = Tally()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of n rows: `logits` [m, K] of those at `places` [m], and why the others have none.

    `halved` says that they were not scored in one piece.
    """

    places: np.ndarray
    logits: np.ndarray
    rejected: Mapping[int, str]
    tally: Tally
    halved: bool


Score = Callable[[Texts], Answer]


def score_halving(rows: Texts, score: Score, trial: tuple[str, str]) -> Outcome:
    """Score `rows` in one piece, or in halves where `score` raises, down to single rows.

    A single row that raises is tried once more, behind the longest row that could be scored (`trial`,
    where there is none yet, or memory was short: no row takes more than it). If it raises again it is
    rejected; a row whose logits are not all finite is rejected at once. The same rows and faults give
    the same pieces, so the same bits. Raises WorkerIll where the row before it raises too.
    """
    work = _Work(rows, score, trial)
    waiting = [(0, len(rows))] if rows else []
    while waiting:
        start, end = waiting.pop()
        if not work.take(start, end):
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return work.outcome()


@dataclass(frozen=True)
class _Raised:
    """What a call raised, without the frames that keep its tensors alive."""

    reason: str
    memory: bool

    @classmethod
    def of(cls, error: BaseException) -> _Raised:
        return cls(reason_of(error), lacks_memory(error))


@dataclass
class _Work:
    rows: Texts
    score: Score
    trial: tuple[str, str]
    halved: bool = False
    tally: Tally = Tally()
    good: tuple[str, str] | None = None
    places: list[np.ndarray] = field(default_factory=list)
    logits: list[np.ndarray] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)

    def take(self, start: int, end: int) -> bool:
        """Score rows [start, end); False where they must be halved."""
        found = self._try(self.rows[start:end])
        if isinstance(found, _Raised) and end - start > 1:
            self.halved = True
            return False
        if isinstance(found, _Raised):
            found = self._once_more(start, found)
        if isinstance(found, _Raised):
            self.rejected[start] = found.reason
        else:
            self._add(start, found)
        return True

    def _try(self, rows: Texts) -> Answer | _Raised:
        try:
            return self.score(rows)
        except BaseException as error:
            if not is_fault(error):
                raise
            return _Raised.of(error)

    def _once_more(self, row: int, before: _Raised) -> Answer | _Raised:
        """One more try of a row that raised, if a row that could be scored still can be."""
        known = self._try([self.trial if before.memory else self.good or self.trial])
        if isinstance(known, _Raised):
            raise WorkerIll(
                f"a row that could be scored cannot be any more: it {known.reason}; "
                f"the row before it {before.reason}",
                memory=known.memory or before.memory,
            )
        return self._try(self.rows[row : row + 1])

    def _add(self, start: int, answer: Answer) -> None:
        finite = np.isfinite(answer.logits).all(axis=1)
        self.rejected |= {start + int(row): NOT_FINITE for row in np.flatnonzero(~finite)}
        places = start + np.flatnonzero(finite)
        self.places.append(places)
        self.logits.append(answer.logits[finite])
        self.tally += answer.tally
        known = [self.good] if self.good else []
        known += [self.rows[int(place)] for place in places]
        self.good = max(known, key=lambda row: len(row[0]) + len(row[1]), default=None)

    def outcome(self) -> Outcome:
        if not self.places:
            nothing = np.empty(0, np.int64), np.empty((0, 0), np.float32)
            return Outcome(*nothing, self.rejected, self.tally, self.halved)
        found = np.concatenate(self.places), np.concatenate(self.logits)
        return Outcome(*found, self.rejected, self.tally, self.halved)


def _sum(one: StatesRead | None, other: StatesRead | None) -> StatesRead | None:
    if one is None or other is None:
        return one or other
    return StatesRead(
        read=one.read + other.read,
        long_queries=one.long_queries + other.long_queries,
        unknown_titles=one.unknown_titles + other.unknown_titles,
    )


# The marks of begun partitions: a worker that is killed leaves one, and so they are counted.


@dataclass(frozen=True)
class Attempt:
    """One try of a partition, counted from 1; a mark of its own lies in `out` while it runs."""

    out: Place
    partition: str
    number: int

    @classmethod
    def begin(cls, out: Place, partition: str) -> Attempt:
        """Behind the attempts whose marks are still there: their workers died. Raises OSError."""
        number = 1
        while out.exists(_mark(partition, number)):
            number += 1
        attempt = cls(out, partition, number)
        out.write(_mark(partition, number), b"")
        return attempt

    @property
    def deaths(self) -> int:
        """How many workers died of this partition, or while they had it."""
        return self.number - 1

    def give_up(self) -> None:
        """Take this attempt's mark away: its worker lives and says why it did not finish."""
        self.out.delete(_mark(self.partition, self.number))

    def finish(self) -> None:
        """Take all marks away, the first one last, so that a kill leaves no gap; and the notes."""
        self.out.delete(notes_file(self.partition))
        for number in range(self.number, 0, -1):
            self.out.delete(_mark(self.partition, number))


def _mark(partition: str, number: int) -> str:
    return f"{BEGUN}/{partition}.{number}"


# Faults of a partition in words: what went wrong, and whether another attempt may go better.


_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)

_ADVICE = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there, or ask for a larger quota",
    errno.EACCES: "let this user write there",
    errno.EPERM: "let this user write there",
    errno.EROFS: "give an --out that can be written",
}


def fault(partition: str, kind: FaultKind, message: str, *, again: bool, attempt: int = 1) -> Fault:
    """A fault of this node, on one line."""
    node = platform.node()
    return Fault(
        partition=partition,
        kind=kind,
        message=plain(message),
        again=again,
        node=node,
        attempt=attempt,
    )


def fault_of(error: BaseException, partition: str, attempt: int = 1) -> Fault:
    """The fault that an error means which was raised while a partition was read and scored."""
    kind, again = _meaning(error)
    known = isinstance(error, QtBertError)
    message = str(error) if known else f"{partition}: scoring {reason_of(error)}"
    return fault(partition, kind, message, again=again, attempt=attempt)


def disk_fault(error: OSError, where: str, partition: str, attempt: int = 1) -> Fault:
    """The fault of a run folder `where` that cannot be written."""
    words = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0, "see that it can be written")
    message = f"{where}: cannot be written ({words}); {advice}, and go on with --resume"
    again = error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS)
    return fault(partition, "disk", message, again=again, attempt=attempt)


def _meaning(error: BaseException) -> tuple[FaultKind, bool]:
    if isinstance(error, PairFileError):
        cause = error.__cause__
        return "input", isinstance(cause, OSError) and not isinstance(cause, _LASTING)
    if isinstance(error, WorkerIll):
        return ("memory" if error.memory else "model"), True
    if lacks_memory(error):
        return "memory", True
    if isinstance(error, OSError):  # of the node: a reader's is a PairFileError by now
        return "disk", True
    return ("model" if isinstance(error, QtBertError) else "program"), False
