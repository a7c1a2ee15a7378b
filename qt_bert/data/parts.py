"""Parts of a file of pairs: cut once, read alone in any order, verified by hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath

from qt_bert.data.columns import Columns
from qt_bert.data.formats import format_of, open_format, open_lines
from qt_bert.data.lines import (
    Location,
    PartChanged,
    RawRow,
    TextBlock,
    open_bytes,
    open_stored,
    raw_lines,
)
from qt_bert.data.pairs import Pair, Reject
from qt_bert.data.parquet import ParquetFile, Span
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError

_STEM_CHARACTERS = 40


@dataclass(frozen=True)
class FilePart:
    """Consecutive rows of one file.

    Attributes:
        file: a path or an address, as the user wrote it.
        first: its first line (text) or row (Parquet), from 1.
        rows: number of lines or rows, rejects and empty lines included.
        offset: decompressed bytes before it; 0 in Parquet.
        length: decompressed bytes of it; 0 in Parquet.
        sha256: of these bytes; in Parquet of the footer and of the row groups that hold its rows.
        encoding: of the file, as detected.
        header: the line that names the columns or, without a header, as many empty fields as the
            file's first row has; None where each row names its columns.
    """

    file: str
    first: int
    rows: int
    offset: int
    length: int
    sha256: str
    encoding: str
    header: str | None

    def name(self) -> str:
        """File stem, first line and 16 digits of a hash of all fields: a valid file name."""
        file = PurePosixPath(self.file.partition("?")[0]).name  # without an address's parameters
        stem = re.sub(r"[^\w-]+", "_", file.partition(".")[0])[:_STEM_CHARACTERS] or "part"
        fields = json.dumps(asdict(self), sort_keys=True)
        return f"{stem}.l{self.first:09}.{hashlib.sha256(fields.encode()).hexdigest()[:16]}"


def cut(
    file: Location,
    options: ReaderOptions,
    rows: int,
    advance: Callable[[int], object] = lambda stored: None,
) -> Iterator[FilePart]:
    """Cut a file into parts of `rows` rows, the last shorter, the header in none.

    The file is streamed once, one part in memory; `advance` gets the number of stored bytes read.
    Raises ArgumentError and PairFileError as a reader with these options, for missing columns before
    the first part.
    """
    if rows < 1:
        raise ArgumentError(f"a part has at least one row, not {rows}")
    parts = _parquet_parts if format_of(file) == "parquet" else _text_parts
    return parts(file, options.resolve_columns(), rows, advance)


def read_part(
    part: FilePart, options: ReaderOptions, file: Location | None = None
) -> Iterator[Pair | Reject]:
    """The pairs and rejects of a part, as a reader of the whole file yields them.

    `file` opens `part.file` where that is no local path. Rejects are not limited. Raises PartChanged,
    before the first row, for changed bytes, PairFileError for an unreadable file.
    """
    location = Path(part.file) if file is None else file
    parser = options.row_parser()
    for row in _rows(part, location, options.resolve_columns()):
        if row.line >= part.first:  # the first row's width, in place of a header, is no row
            yield parser.parse(row)


def _text_parts(
    file: Location, columns: Columns, rows: int, advance: Callable[[int], object]
) -> Iterator[FilePart]:
    opened = open_format(file, columns)
    assert not isinstance(opened, ParquetFile)
    header = opened.find_columns()
    with open_stored(file) as (stored, handle):
        lines = enumerate(raw_lines(handle, file), start=1)
        first = 1 + (header.line if header else 0)
        offset, seen = sum(len(raw) for _, raw in islice(lines, first - 1)), 0
        whole = iter(opened.join_lines(lines))
        while block := list(islice(whole, rows)):
            data = b"".join(raw for _, raw in block)
            digest = hashlib.sha256(data).hexdigest()
            height = data.count(b"\n") + (not data.endswith(b"\n"))
            place = (str(file), first, height, offset, len(data), digest)
            yield FilePart(*place, opened.encoding, header.text if header else None)
            first, offset = first + height, offset + len(data)
            seen, before = stored.tell(), seen
            advance(seen - before)


def _parquet_parts(
    file: Location, columns: Columns, rows: int, advance: Callable[[int], object]
) -> Iterator[FilePart]:
    opened = open_format(file, columns)
    assert isinstance(opened, ParquetFile)
    with opened.open() as stored:
        for first in range(1, stored.rows + 1, rows):
            size = min(rows, stored.rows + 1 - first)
            before = stored.hashed
            digest = stored.sha256(first, size)
            yield FilePart(str(file), first, size, 0, 0, digest, opened.encoding, None)
            advance(stored.hashed - before)


def _rows(part: FilePart, file: Location, columns: Columns) -> Iterator[RawRow | Reject]:
    if format_of(file) == "parquet":
        return ParquetFile(file, columns, Span(part.first, part.rows, part.sha256)).rows()
    if part.header is None:
        # A required key is in the file, but need not be in each part of it.
        columns = replace(columns, required=frozenset())
    with open_bytes(file) as handle:
        handle.seek(part.offset)
        data = handle.read(part.length)
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise PartChanged.of(file, part.first, part.rows)
    block = TextBlock(file, data, part.first, part.encoding, part.header)
    return open_lines(block, columns).rows()
