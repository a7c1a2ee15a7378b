"""Parquet, read in small batches; columns that are not text become text."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from qt_bert.errors import PairFileError
from qt_bert.pairs.columns import Columns, Placement
from qt_bert.pairs.formats.rows import NO_EXTRA, RawRow
from qt_bert.pairs.formats.source import open_bytes
from qt_bert.pairs.pair import Reason, Reject

_BATCH_ROWS = 4096

Cell = str | bytes | None
"""Text, bytes that are not UTF-8, or nothing."""


class ParquetFile:
    """A Parquet file; the line of a row is its number from 1."""

    encoding = "utf-8"

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        with self._open() as file:
            names = file.schema_arrow.names
            self._place = columns.place(names, str(path))
            for index in (self._place.query, self._place.title):
                self._refuse_nested(file.schema_arrow.field(index))

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order, and a reject where query or title is null or not UTF-8.

        Raises PairFileError where the data is damaged.
        """
        line = 0
        with self._open() as file:
            for batch in self._batches(file):
                cells = [_cells(column) for column in batch.columns]
                for row in zip(*cells, strict=True):
                    line += 1
                    yield _row(line, row, self._place)

    def _open(self) -> Any:
        with open_bytes(self._path) as handle:
            if handle.read(4) != b"PAR1":
                raise PairFileError(f"{self._path}: is not a Parquet file; name it by its format")
        arrow = import_module("pyarrow")
        try:
            return import_module("pyarrow.parquet").ParquetFile(self._path)
        except (arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _batches(self, file: Any) -> Iterator[Any]:
        arrow = import_module("pyarrow")
        try:
            yield from file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False)
        except (arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> PairFileError:
        return PairFileError(
            f"{self._path}: the Parquet data is damaged or cut short ({error}); make it again"
        )

    def _refuse_nested(self, field: Any) -> None:
        if import_module("pyarrow.types").is_nested(field.type):
            raise PairFileError(
                f"{self._path}: the column {field.name!r} holds {field.type}; name a text column"
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
