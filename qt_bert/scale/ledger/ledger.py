"""The ledger of a scoring run in partitions: what is done, what is missing, and how the run ends.

`run.json` says what the run is, `partitions.jsonl` what there is to do; a line in `manifest/` says
that a partition is done; in the end come `rejects.tsv`, and `run.json` with `complete`. A kill between
any two of these leaves a folder that `resume` goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qt_bert.errors import PairFileError, RunFolderError
from qt_bert.pairs.parts import Part
from qt_bert.pairs.rejects import check_share
from qt_bert.scale.ledger.ending import end, not_one_pair, too_many_rejects
from qt_bert.scale.ledger.lines import Line
from qt_bert.scale.ledger.manifest import Manifest
from qt_bert.scale.ledger.opening import Asked, Scanned, Standing, begin, go_on, number_of
from qt_bert.scale.ledger.record import RunRecord, check_flags, check_key
from qt_bert.scale.ledger.storage import Storage, telling_of_faults
from qt_bert.scale.ledger.totals import Judge

__all__ = ["Asked", "Ledger", "Scanned"]


class Ledger:
    """An open run. `put_back` says of partitions that were done, by name, why they are done again."""

    def __init__(self, storage: Storage, standing: Standing, max_rejects: float) -> None:
        self.storage = storage
        self.put_back: Mapping[str, str] = standing.put_back
        self._standing = standing
        self._lines = standing.lines
        self._manifest = Manifest(storage)
        self._judge = Judge(check_share(max_rejects))
        self._rows = 0
        self._repeated: set[int] = set()
        for number, line in self._lines.items():
            self._count(number, line)

    @classmethod
    def open(
        cls,
        storage: Storage,
        scan: Callable[[], Scanned],
        asked: Callable[[Mapping[str, Any]], Asked],
        *,
        resume: bool = False,
        overwrite: bool = False,
    ) -> Ledger:
        """Begin a run in `storage`, or go on with the one that is there.

        `scan` is called where there are no partitions yet, before anything is written; `asked` gets
        the facts that the scan left, now or then. Raises RunFolderError where the flags do not fit
        what is there, where the run has another key, is damaged, or cannot be written; ArgumentError
        for a share of rejects that cannot be meant; whatever `scan` and `asked` raise.
        """
        record = check_flags(storage, resume=resume, overwrite=overwrite)
        if record is None or record.partitions_sha256 is None:
            scanned = scan()
            wanted = asked(scanned.facts)
            check_share(wanted.max_rejects)
            with telling_of_faults(storage):
                standing = begin(storage, wanted, scanned)
        else:
            wanted = asked(record.scan)
            check_share(wanted.max_rejects)
            check_key(storage, record.key, wanted.key)
            with telling_of_faults(storage):
                standing = go_on(storage, record, wanted)
        return cls(storage, standing, wanted.max_rejects)

    @property
    def record(self) -> RunRecord:
        """What `run.json` says."""
        return self._standing.record

    @property
    def rows_done(self) -> int:
        """The rows of the partitions that are done; `record.rows` are all."""
        return self._rows

    @property
    def pairs(self) -> int:
        """The pairs that are scored."""
        return self._judge.pairs

    @property
    def rejected(self) -> int:
        """The rows that are rejected."""
        return self._judge.rejected

    def missing(self) -> list[Part]:
        """The partitions that are not done, in order; none in a finished run."""
        parts = self._standing.partitions.parts
        return [part for number, part in enumerate(parts) if number not in self._lines]

    def done(self, *lines: Line) -> None:
        """Record that partitions are done; it is stored to stay when this returns.

        Of several lines of a partition the last one counts. Raises PairFileError where too many of
        the rows so far are rejects (the lines are stored, and a run that allows more goes on behind
        them); RunFolderError where a line is of no partition of this run, and where it cannot be
        stored.
        """
        numbers = [self._number(line) for line in lines]
        with telling_of_faults(self.storage, self._so_far()):
            self._manifest.add(lines)
        for number, line in zip(numbers, lines, strict=True):
            if (old := self._lines.get(number)) is not None:
                self._repeated.add(number)
                self._discount(number, old)
            self._lines[number] = line
            self._count(number, line)
        if self._judge.stops():
            raise PairFileError(too_many_rejects(self.storage, self._standing, self._judge))

    def finish(self) -> RunRecord:
        """End the run: one list of rejects, and the totals. Nothing where it has ended before.

        Raises RunFolderError where a partition is not done, or its part is not the one that was
        stored; PairFileError where too many rows are rejects, or no row is a pair.
        """
        if self.record.complete:
            return self.record
        if missing := self.missing():
            raise RunFolderError(
                f"{self.storage}: {len(missing):,} of {self.record.partitions:,} partitions are not "
                f"done, the first is {missing[0].name()}; --resume does them"
            )
        if self._judge.stops(at_end=True):
            raise PairFileError(too_many_rejects(self.storage, self._standing, self._judge))
        if not self._judge.pairs:
            raise PairFileError(not_one_pair(self.storage, self._standing, self._judge))
        with telling_of_faults(self.storage, self._so_far()):
            self._standing.record = end(self.storage, self._standing, self._repeated)
        return self.record

    def _number(self, line: Line) -> int:
        if self.record.complete:
            raise RunFolderError(f"{self.storage}: the run is finished; nothing can be added to it")
        if (number := number_of(line, self._standing)) is None:
            raise RunFolderError(
                f"{self.storage}: {line.partition!r} (line {line.first} of {line.file}) is no "
                "partition of this run; is another run's worker at work?"
            )
        return number

    def _count(self, number: int, line: Line) -> None:
        self._judge.take(line)
        self._rows += self._standing.partitions.parts[number].rows

    def _discount(self, number: int, line: Line) -> None:
        self._judge.drop(line)
        self._rows -= self._standing.partitions.parts[number].rows

    def _so_far(self) -> str:
        return f"{len(self._lines):,} of {self.record.partitions:,} partitions are done"
