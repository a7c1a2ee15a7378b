"""What the finished partitions of a run add up to, and whether too many of its rows are no pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from qt_bert.pairs.rejects import JUDGED_EVERY, too_many
from qt_bert.scale.ledger.lines import Line, StatesRead


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over partitions. `seconds` are those of all workers together; `how` counts partitions."""

    pairs: int = 0
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    truncated_titles: int = 0
    truncated_queries: int = 0
    bad_grades: int = 0
    states: StatesRead | None = None
    bytes: int = 0
    seconds: float = 0.0
    how: dict[str, int] = field(default_factory=dict)


def totals_of(lines: Iterable[Line]) -> Totals:
    """The sums over `lines`; reasons by frequency, the same lines in any order giving the same."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    how: Counter[str] = Counter()
    states: Counter[str] | None = None
    seconds = []
    for line in lines:
        for name in _COUNTS:
            counts[name] += getattr(line, name)
        counts["bytes"] += line.part.bytes if line.part else 0
        reasons.update(line.reasons)
        how[line.how] += 1
        seconds.append(line.seconds)
        if line.states is not None:
            states = states if states is not None else Counter()
            states.update({name: getattr(line.states, name) for name in _STATES})
    return Totals(
        **counts,
        reasons=_by_frequency(reasons),
        how=_by_frequency(how),
        seconds=round(math.fsum(seconds), 3),
        states=None if states is None else StatesRead(**states),
    )


_COUNTS = ("pairs", "rejected", "truncated_titles", "truncated_queries", "bad_grades")
_STATES = ("read", "long_queries", "unknown_titles")


def _by_frequency(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class Judge:
    """Counts pairs and rejects while a run goes, and says when there are too many of the latter."""

    def __init__(self, max_rejects: float) -> None:
        self.max_rejects = max_rejects
        self.pairs = 0
        self.reasons: Counter[str] = Counter()
        self._judged = 0

    @property
    def rejected(self) -> int:
        """The rejects so far."""
        return self.reasons.total()

    @property
    def rows(self) -> int:
        """The rows so far that are a pair or a reject."""
        return self.pairs + self.rejected

    def take(self, line: Line) -> None:
        """Count a partition."""
        self.pairs += line.pairs
        self.reasons.update(line.reasons)

    def drop(self, line: Line) -> None:
        """Count a partition no more."""
        self.pairs -= line.pairs
        self.reasons.subtract(line.reasons)
        self.reasons = +self.reasons

    def stops(self, *, at_end: bool = False) -> bool:
        """Whether the run is to stop; judged at the end, and every 10,000 rows."""
        if not at_end and self.rows - self._judged < JUDGED_EVERY:
            return False
        self._judged = self.rows
        return too_many(self.rejected, self.rows, self.max_rejects)

    def most(self, kinds: int = 10) -> Counter[str]:
        """The reasons, the rarest as one where there are more than `kinds`."""
        found = _by_frequency(self.reasons)
        kept = Counter(dict(list(found.items())[:kinds]))
        if rest := self.rejected - kept.total():
            kept["others"] = rest
        return kept
