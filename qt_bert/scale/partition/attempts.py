"""The marks of begun partitions: a worker that is killed leaves one, and so they are counted."""

from __future__ import annotations

from dataclasses import dataclass

from qt_bert.scale.ledger.layout import BEGUN, notes_file
from qt_bert.scale.places.place import Place


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
