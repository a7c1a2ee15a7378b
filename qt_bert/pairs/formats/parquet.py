"""Parquet, read in small batches; columns that are not text become text."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from qt_bert.errors import PairFileError
from qt_bert.pairs.columns import Columns, Placement
from qt_bert.pairs.formats.parquet_source import ParquetSource, StoredParquet
from qt_bert.pairs.formats.rows import NO_EXTRA, Head, RawRow
from qt_bert.pairs.pair import Reason, Reject

_BATCH_ROWS = 4096

Cell = str | bytes | None
"""Text, bytes that are not UTF-8, or nothing."""


class ParquetFile:
    """A Parquet file, or a span of its rows; the line of a row is its number from 1."""

    encoding = "utf-8"

    def __init__(self, source: ParquetSource, columns: Columns) -> None:
        self._source = source
        self._columns = columns

    def find_columns(self) -> Head | None:
        """None: the file names its columns itself; PairFileError where one asked for is missing."""
        with self._source.open() as stored:
            self._placement(stored.file.schema_arrow)
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and a reject where query or title is null or not UTF-8.

        Raises PairFileError where the data is damaged, PartChanged where they are not those of the
        span; only the last row tells that they were the same all along.
        """
        with self._source.open() as stored:
            place = self._placement(stored.file.schema_arrow)
            for first, batch in self._batches(stored):
                cells = [_cells(column) for column in batch.columns]
                for line, row in enumerate(zip(*cells, strict=True), start=first):
                    yield _row(line, row, place)
            self._source.refuse_changed(stored)  # the bytes were read twice, hashed and then parsed

    def _placement(self, schema: Any) -> Placement:
        place = self._columns.place(schema.names, str(self._source.path))
        for index in (place.query, place.title):
            self._refuse_nested(schema.field(index))
        return place

    def _batches(self, stored: StoredParquet) -> Iterator[tuple[int, Any]]:
        """The rows wanted, in batches, with the number of the first; others beside them dropped."""
        span = self._source.span
        first, end = (span.first, span.first + span.rows) if span else (1, stored.rows + 1)
        groups = stored.groups(first, end - first)
        line = stored.start(groups[0]) if groups else end
        with self._source.reading():
            for batch in stored.file.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=groups, use_threads=False
            ):
                begin, stop = max(first - line, 0), min(end - line, batch.num_rows)
                if begin < stop:
                    yield line + begin, batch.slice(begin, stop - begin)
                line += batch.num_rows
                if line >= end:
                    return

    def _refuse_nested(self, field: Any) -> None:
        if import_module("pyarrow.types").is_nested(field.type):
            raise PairFileError(
                f"{self._source.path}: the column {field.name!r} holds {field.type}; "
                "name a text column"
            )


def _cells(column: Any) -> list[Cell]:
    arrow, types = import_module("pyarrow"), import_module("pyarrow.types")
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_nested(column.type):
        return [None if value is None else str(value) for value in column.to_pylist()]
    # One test for string, large_string, string_view and their five binary relatives.
    if "string" in str(column.type) or "binary" in str(column.type):
        return [_decoded(value) for value in column.cast(arrow.large_binary()).to_pylist()]
    if types.is_floating(column.type):
        compute = import_module("pyarrow.compute")
        column = compute.if_else(compute.is_nan(column), None, column)
    try:
        return list(column.cast(arrow.string()).to_pylist())
    except arrow.ArrowNotImplementedError:
        return [None if value is None else str(value) for value in column.to_pylist()]


def _decoded(value: bytes | None) -> Cell:
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _row(line: int, cells: tuple[Cell, ...], place: Placement) -> RawRow | Reject:
    query, title = cells[place.query], cells[place.title]
    shown = "\t".join(_shown(cell) for cell in (query, title))
    if any(isinstance(cell, bytes) for cell in cells):
        return Reject.of(line, Reason.UNDECODABLE, shown)
    if query is None or title is None:
        missing = Reason.MISSING_QUERY if query is None else Reason.MISSING_TITLE
        return Reject.of(line, missing, shown)
    return RawRow(
        line,
        _shown(query),
        _shown(title),
        None if place.grade is None else _text(cells[place.grade]),
        None if place.id is None else _text(cells[place.id]),
        {name: _shown(cells[i]) for name, i in place.extra} if place.extra else NO_EXTRA,
        shown,
    )


def _shown(cell: Cell) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    return cell or ""


def _text(cell: Cell) -> str | None:
    return None if cell is None else _shown(cell)
