"""Rows of TSV and CSV: one line, one row, fields by position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from qt_bert.errors import PairFileError
from qt_bert.pairs.columns import Columns, Placement
from qt_bert.pairs.formats.csv import split_csv
from qt_bert.pairs.formats.rows import NO_EXTRA, Head, RawRow
from qt_bert.pairs.formats.source import Lines
from qt_bert.pairs.formats.tsv import split_tsv
from qt_bert.pairs.pair import Reason, Reject


class Dialect(NamedTuple):
    """What parts the fields of a line, and the function that parts them."""

    separator: str
    split: Callable[[str], list[str]]


TSV = Dialect("\t", split_tsv)
CSV = Dialect(",", split_csv)


class DelimitedFile:
    """Lines that a dialect cuts into fields.

    The header, or without one the first row, says how many fields a row has.
    """

    def __init__(self, source: Lines, columns: Columns, dialect: Dialect) -> None:
        self._source = source
        self._columns = columns
        self._dialect = dialect

    @property
    def encoding(self) -> str:
        """The file's text encoding."""
        return self._source.encoding

    def find_columns(self) -> Head | None:
        """The header or, without one, as many empty fields as the first row has; None without both.

        Raises PairFileError where a column that was asked for is missing.
        """
        for item in self._source.lines():
            if isinstance(item, Reject):
                self._refuse_as_header(item)
                continue
            line, text = item
            width = self._placement(line, self._dialect.split(text)).width
            if self._columns.header:
                return Head(line, text)
            return Head(0, self._dialect.separator * (width - 1))
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and a reject where the fields are too few or too many."""
        placement: Placement | None = None
        for item in self._source.lines():
            if isinstance(item, Reject):
                if placement is None:
                    self._refuse_as_header(item)
                yield item
                continue
            line, text = item
            fields = self._dialect.split(text)
            if placement is None:
                placement = self._placement(line, fields)
                if self._columns.header:
                    continue
            yield _row(line, text, fields, placement)

    def _refuse_as_header(self, reject: Reject) -> None:
        if self._columns.header:
            where = f"{self._source.path}: line {reject.line}"
            raise PairFileError(f"{where}: the header is neither UTF-8 nor GB18030 text")

    def _placement(self, line: int, fields: Sequence[str]) -> Placement:
        where = f"{self._source.path}: line {line}"
        if not self._columns.header:
            return self._columns.place([f"column_{i}" for i in range(1, len(fields) + 1)], where)
        names = [name.strip() or f"column_{i}" for i, name in enumerate(fields, start=1)]
        return self._columns.place(names, where)


def _row(line: int, text: str, fields: list[str], place: Placement) -> RawRow | Reject:
    if len(fields) != place.width:
        few = len(fields) < place.width
        return Reject.of(line, Reason.TOO_FEW_FIELDS if few else Reason.TOO_MANY_FIELDS, text)
    return RawRow(
        line,
        fields[place.query],
        fields[place.title],
        None if place.grade is None else fields[place.grade],
        None if place.id is None else fields[place.id],
        {name: fields[i] for name, i in place.extra} if place.extra else NO_EXTRA,
        text,
    )
