"""Reading a file of pairs, row by row, losing none: each row is a pair or a reject."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs.columns import Columns
from qt_bert.pairs.formats import format_of, open_format
from qt_bert.pairs.formats.opening import Location, Readable
from qt_bert.pairs.grades import LabelScheme
from qt_bert.pairs.judging import Judge
from qt_bert.pairs.pair import Pair, Reject
from qt_bert.pairs.rejects import JUDGED_EVERY, RejectLog, check_share, describe, too_many


class PairReader:
    """The pairs of a TSV, CSV, JSON Lines or Parquet file, in file order.

    Iterating streams the file and may be repeated; each time the counters start anew:
    `rows_read` = `accepted` + `rejected`, `reasons` counts the rejects by reason, and `bad_grades`
    the accepted pairs whose label the scheme does not know. Texts are kept as they are; a row
    whose query or title holds nothing but whitespace is rejected.

    Args:
        path: the file, or what lies at an address; its format goes by its suffix, its encoding by
            its bytes.
        columns: `query`, `title`, `grade`, `id` → the file's column name, or its position from 1.
            Names not given keep their default (see `Columns.resolve`).
        header: whether the first line of a TSV or CSV file names the columns.
        grade_map: how labels are read; without one they stay text.
        grade_required: reject rows whose grade is missing or bad, instead of leaving it out.
        max_rejects: the share of the rows read so far that may be rejects; ten always may.
        rejects_path: where rejected rows are listed.

    Raises:
        ArgumentError: arguments that cannot be meant.
        PairFileError: at construction or while iterating: the file cannot be read as asked, has
            too many rejects, or not one accepted row.
    """

    rows_read: int
    accepted: int
    bad_grades: int
    reasons: Counter[str]
    _first_reject: Reject | None

    def __init__(
        self,
        path: str | os.PathLike[str] | Readable,
        *,
        columns: Mapping[str, str | int] | None = None,
        header: bool = True,
        grade_map: LabelScheme | None = None,
        grade_required: bool = False,
        max_rejects: float = 0.01,
        rejects_path: Path | None = None,
    ) -> None:
        self.path: Location = path if isinstance(path, Readable) else Path(path)
        self.grade_map = grade_map
        self.format = format_of(self.path)
        if rejects_path is not None and _is_same(rejects_path, self.path):
            raise ArgumentError(f"{rejects_path}: the rejects would overwrite the pairs")
        self._judge = Judge(grade_map, grade_required)
        self._max_rejects = check_share(max_rejects)
        self._rejects_path = rejects_path
        required = ("grade",) if grade_required else ()
        self._file = open_format(
            self.path, Columns.resolve(columns or {}, header=header, required=required)
        )
        self._start_counting()

    @property
    def encoding(self) -> str:
        """The text encoding: `utf-8`, `utf-8-sig` or `gb18030`."""
        return self._file.encoding

    @property
    def rejected(self) -> int:
        """The rejected rows so far."""
        return self.reasons.total()

    def __iter__(self) -> Generator[Pair, None, None]:
        self._start_counting()
        with RejectLog(self._rejects_path) as log:
            for judged in self.judged():
                self.rows_read += 1
                if isinstance(judged, Pair):
                    self.accepted += 1
                    self.bad_grades += self._judge.is_bad_grade(judged)
                    yield judged
                else:
                    self.reasons[judged.reason] += 1
                    self._first_reject = self._first_reject or judged
                    log.write(judged)
                if self.rows_read % JUDGED_EVERY == 0:
                    self._stop_at_too_many_rejects()
            self._stop_at_too_many_rejects()
            if not self.accepted:
                raise PairFileError(self._no_pair())

    def judged(self) -> Iterator[Pair | Reject]:
        """All rows in file order, pairs and rejects, uncounted and however many rejects there are."""
        return map(self._judge.judge, self._file.rows())

    def _start_counting(self) -> None:
        self.rows_read = 0
        self.accepted = 0
        self.bad_grades = 0
        self.reasons = Counter()
        self._first_reject = None

    def _stop_at_too_many_rejects(self) -> None:
        if not too_many(self.rejected, self.rows_read, self._max_rejects):
            return
        listed = f"; all are listed in {self._rejects_path}" if self._rejects_path else ""
        raise PairFileError(
            f"{self.path}: {self.rejected:,} of the first {self.rows_read:,} rows are rejects, "
            f"more than --max-rejects {self._max_rejects:g} allows "
            f"({describe(self.reasons, self._first_reject)}){listed}"
        )

    def _no_pair(self) -> str:
        if not self.rows_read:
            return f"{self.path}: the file has no rows"
        return (
            f"{self.path}: not one of {self.rows_read:,} rows is a pair "
            f"({describe(self.reasons, self._first_reject)})"
        )


def read_pairs(path: str | os.PathLike[str], **options: Any) -> list[Pair]:
    """All pairs of a file that fits in memory; options and errors are those of `PairReader`."""
    return list(PairReader(path, **options))


def _is_same(rejects_path: Path, path: Location) -> bool:
    return isinstance(path, Path) and Path(rejects_path).resolve() == path.resolve()
