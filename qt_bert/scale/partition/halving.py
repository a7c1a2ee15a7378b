"""Scoring rows so that one that cannot be scored costs itself alone: halves, down to single rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qt_bert.errors import QtBertError
from qt_bert.scale.ledger.lines import StatesRead
from qt_bert.scale.partition.raised import is_fault, lacks_memory, reason_of

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
