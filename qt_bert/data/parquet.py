"""Parquet: a file or a span of its rows, verified, read in small batches as text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import accumulate, groupby, pairwise
from typing import IO, Any, NamedTuple

from qt_bert.data.columns import Columns, Placement
from qt_bert.data.lines import NO_EXTRA, Header, Location, PartChanged, RawRow, open_bytes
from qt_bert.data.pairs import Reason, Reject
from qt_bert.errors import PairFileError

_MAGIC = b"PAR1"
_BLOCK_BYTES = 2**20
_BATCH_ROWS = 4096

Cell = str | bytes | None
"""Text, bytes that are not UTF-8, or null."""


class Span(NamedTuple):
    """`rows` rows from number `first` (from 1), and their `StoredParquet.sha256`."""

    first: int
    rows: int
    sha256: str


class StoredParquet:
    """An open Parquet file; `starts` are the first rows of its row groups, from 1, and one beyond the last;
    `hashed` counts the bytes hashed."""

    def __init__(self, handle: IO[bytes], file: Any) -> None:
        self.file = file
        self.hashed = 0
        self._handle = handle
        self._digests: dict[int | None, bytes] = {}
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self.starts = list(accumulate(sizes, initial=1))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.starts[-1] - 1

    def groups(self, first: int, rows: int) -> list[int]:
        """The row groups, from 0, that hold any of `rows` rows from `first`."""
        return [
            i
            for i, (start, end) in enumerate(pairwise(self.starts))
            if start < first + rows and end > first
        ]

    def sha256(self, first: int, rows: int) -> str:
        """SHA-256 over the footer and the stored bytes of the row groups that hold the rows.

        The footer holds schema and page offsets, so equal hashes mean equal rows. Each byte is hashed
        once, for any number of spans.
        """
        whole = hashlib.sha256(self._digest(None))
        for group in self.groups(first, rows):
            whole.update(self._digest(group))
        return whole.hexdigest()

    def forget(self) -> None:
        """Drop the cached hashes."""
        self._digests.clear()

    def _digest(self, group: int | None) -> bytes:
        if group not in self._digests:
            start, end = self._footer() if group is None else self._extent(group)
            self._digests[group] = _hash_of(self._handle, start, end)
            self.hashed += end - start
        return self._digests[group]

    def _footer(self) -> tuple[int, int]:
        size = self._handle.seek(0, 2)
        self._handle.seek(size - 8)
        length = int.from_bytes(self._handle.read(4), "little")
        return size - 8 - length, size

    def _extent(self, group: int) -> tuple[int, int]:
        metadata = self.file.metadata.row_group(group)
        chunks = [metadata.column(i) for i in range(metadata.num_columns)]
        starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        ends = [s + chunk.total_compressed_size for s, chunk in zip(starts, chunks, strict=True)]
        return min(starts), max(ends)


def _hash_of(handle: IO[bytes], start: int, end: int) -> bytes:
    handle.seek(start)
    digest = hashlib.sha256()
    while start < end and (block := handle.read(min(_BLOCK_BYTES, end - start))):
        digest.update(block)
        start += len(block)
    return digest.digest()


class ArrowCell(str):
    """A null or non-text value as text; in the file it is `column[row]`."""

    column: Any
    row: int


def arrow_column(cells: Sequence[str]) -> Any:
    """Cells as an Arrow array of their file's column type, else of text."""
    import pyarrow as pa

    parts = [
        pa.nulls(0, next((c.column.type for c in cells if isinstance(c, ArrowCell)), pa.string()))
    ]
    for _, run in groupby(cells, lambda cell: id(getattr(cell, "column", None))):
        group = list(run)
        if isinstance(group[0], ArrowCell):
            rows = [cell.row for cell in group if isinstance(cell, ArrowCell)]
            parts.append(group[0].column.take(rows))
        else:
            parts.append(pa.array(list(map(str, group)), pa.string()))
    return pa.concat_arrays(parts)


def _typed(column: Any, cells: list[Cell]) -> list[Any]:
    text = str(column.type) == "string"
    kept: list[Cell] = []
    for row, cell in enumerate(cells):
        if not text or not isinstance(cell, str):
            cell = ArrowCell(_shown(cell))
            cell.column, cell.row = column, row
        kept.append(cell)
    return kept


class ParquetFile:
    """A Parquet file, reopened for each pass; the line of a row is its number from 1.

    With a `span` only its rows are read, and only while their bytes have its hash.
    """

    encoding = "utf-8"

    def __init__(self, path: Location, columns: Columns, span: Span | None = None) -> None:
        self._path = path
        self._columns = columns
        self._span = span

    @contextmanager
    def open(self) -> Iterator[StoredParquet]:
        """Raises PairFileError for a damaged or other file, PartChanged for changed bytes."""
        with open_bytes(self._path) as handle:
            if handle.read(len(_MAGIC)) != _MAGIC:
                raise PairFileError(f"{self._path}: is not a Parquet file; name it by its format")
            with self._reading():
                stored = StoredParquet(handle, import_module("pyarrow.parquet").ParquetFile(handle))
            self._refuse_changed(stored)
            yield stored

    @contextmanager
    def _reading(self, fault: str = "the Parquet data is damaged or cut short") -> Iterator[None]:
        """Turn errors of pyarrow, and of Python's dates, in the block into PairFileError."""
        arrow = import_module("pyarrow")
        try:
            yield
        except (arrow.ArrowException, OSError, OverflowError, ValueError) as error:
            raise PairFileError(f"{self._path}: {fault} ({error}); make it again") from error

    def _refuse_changed(self, stored: StoredParquet) -> None:
        """Raise PartChanged where the span's bytes have another hash."""
        if self._span is None:
            return
        first, rows, sha256 = self._span
        stored.forget()
        with self._reading():
            same = stored.rows >= first + rows - 1 and stored.sha256(first, rows) == sha256
        if not same:
            raise PartChanged.of(self._path, first, rows)

    def find_columns(self) -> Header | None:
        """None: every part names its columns. Raises PairFileError for a missing column."""
        with self.open() as stored:
            self._placement(stored.file.schema_arrow)
        return None

    def rows(self) -> Iterator[RawRow | Reject]:
        """The rows in file order; a reject where query or title is null or not UTF-8.

        Raises PairFileError for damaged data and a column that has no text, PartChanged where the span
        changed, also at the end: bytes are read twice, hashed and then parsed.
        """
        with self.open() as stored:
            place = self._placement(stored.file.schema_arrow)
            for first, batch in self._batches(stored):
                cells: list[list[Cell]] = []
                for field, column in zip(batch.schema, batch.columns, strict=True):
                    fault = f"the column {field.name!r}, {field.type}, has no text: leave it out"
                    with self._reading(fault):
                        cells.append(_cells(column))
                typed = {name: _typed(batch.column(i), cells[i]) for name, i in place.extra}
                for at, row in enumerate(zip(*cells, strict=True)):
                    extra = {name: column[at] for name, column in typed.items()} or NO_EXTRA
                    yield _row(first + at, row, place, extra)
            self._refuse_changed(stored)

    def _placement(self, schema: Any) -> Placement:
        place = self._columns.place(schema.names, str(self._path))
        for field in map(schema.field, (place.query, *place.title)):
            if import_module("pyarrow.types").is_nested(field.type):
                raise PairFileError(
                    f"{self._path}: the column {field.name!r} holds {field.type}; name a text column"
                )
        return place

    def _batches(self, stored: StoredParquet) -> Iterator[tuple[int, Any]]:
        """The rows of the span in batches, each with the number of its first row."""
        span = self._span
        first, end = (span.first, span.first + span.rows) if span else (1, stored.rows + 1)
        groups = stored.groups(first, end - first)
        line = stored.starts[groups[0]] if groups else end
        with self._reading():
            for batch in stored.file.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=groups, use_threads=False
            ):
                begin, stop = max(first - line, 0), min(end - line, batch.num_rows)
                if begin < stop:
                    yield line + begin, batch.slice(begin, stop - begin)
                line += batch.num_rows
                if line >= end:
                    return


def _cells(column: Any) -> list[Cell]:
    arrow, types = import_module("pyarrow"), import_module("pyarrow.types")
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_nested(column.type) or isinstance(column.type, arrow.BaseExtensionType):
        return [None if value is None else str(value) for value in column.to_pylist()]
    # string, large_string, string_view and the five binary types
    if "string" in str(column.type) or "binary" in str(column.type):
        return [_decoded(value) for value in column.cast(arrow.large_binary()).to_pylist()]
    if types.is_floating(column.type):
        compute = import_module("pyarrow.compute")
        column = compute.if_else(compute.is_nan(column), None, column)
    if types.is_float64(column.type):  # Arrow writes an id, 12345678901.0, as 1.2345678901e+10
        both = zip(column.to_pylist(), column.cast(arrow.string()).to_pylist(), strict=True)
        return [f"{n:.0f}" if n and n.is_integer() and abs(n) < 2**53 else text for n, text in both]
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


def _row(line: int, cells: tuple[Any, ...], place: Placement, extra: Any) -> RawRow | Reject:
    query, title = cells[place.query], place.title_of(cells)
    shown = "\t".join(_shown(cell) for cell in (query, title))
    read = (place.query, *place.title, place.grade, place.id)
    if any(isinstance(cells[i], bytes) for i in read if i is not None):
        return Reject.of(line, Reason.UNDECODABLE, shown)
    if query is None or title is None:
        missing = Reason.MISSING_QUERY if query is None else Reason.MISSING_TITLE
        return Reject.of(line, missing, shown)
    return RawRow(
        line,
        _shown(query),
        _shown(title),
        None if place.grade is None else _known(cells[place.grade]),
        None if place.id is None else _known(cells[place.id]),
        extra,
        shown,
    )


def _shown(cell: Cell) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    return cell or ""


def _known(cell: Cell) -> str | None:
    return None if cell is None else _shown(cell)
