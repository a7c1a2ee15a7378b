"""A Parquet file, or a span of its rows whose stored bytes are checked before they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import accumulate
from typing import IO, Any, NamedTuple

from qt_bert.errors import PairFileError
from qt_bert.pairs.formats.changed import PartChanged
from qt_bert.pairs.formats.opening import Location, open_bytes

_MAGIC = b"PAR1"
_BLOCK_BYTES = 2**20


class Span(NamedTuple):
    """`rows` rows from number `first` on (from 1), and what `StoredParquet.sha256` says of them."""

    first: int
    rows: int
    sha256: str


class StoredParquet:
    """An open Parquet file with the place of its row groups; `hashed` counts bytes as they are."""

    def __init__(self, handle: IO[bytes], file: Any) -> None:
        self.file = file
        self.hashed = 0
        self._handle = handle
        self._digests: dict[int | None, bytes] = {}
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self._starts = list(accumulate(sizes, initial=1))

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return self._starts[-1] - 1

    def groups(self, first: int, rows: int) -> list[int]:
        """The numbers from 0 of the row groups that hold any of `rows` rows from `first` on."""
        return [
            i
            for i, start in enumerate(self._starts[:-1])
            if start < first + rows and self._starts[i + 1] > first
        ]

    def start(self, group: int) -> int:
        """The number of a row group's first row, from 1."""
        return self._starts[group]

    def sha256(self, first: int, rows: int) -> str:
        """SHA-256 over the file's footer and the stored bytes of the row groups that hold the rows.

        The footer names the columns and places every page, so that equal hashes are equal rows. No
        byte is hashed twice, however many spans are asked for.
        """
        whole = hashlib.sha256(self._digest(None))
        for group in self.groups(first, rows):
            whole.update(self._digest(group))
        return whole.hexdigest()

    def forget(self) -> None:
        """Hash all bytes anew when they are asked for again."""
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
        found = self.file.metadata.row_group(group)
        chunks = [found.column(i) for i in range(found.num_columns)]
        starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        ends = [s + chunk.total_compressed_size for s, chunk in zip(starts, chunks, strict=True)]
        return min(starts), max(ends)


class ParquetSource:
    """A Parquet file, opened anew for each pass; with a `span`, only while its bytes are the same."""

    def __init__(self, path: Location, span: Span | None = None) -> None:
        self.path = path
        self.span = span

    @contextmanager
    def open(self) -> Iterator[StoredParquet]:
        """Raises PairFileError where it is no Parquet or damaged, PartChanged where it changed."""
        with open_bytes(self.path) as handle:
            if handle.read(len(_MAGIC)) != _MAGIC:
                raise PairFileError(f"{self.path}: is not a Parquet file; name it by its format")
            with self.reading():
                stored = StoredParquet(handle, _parquet_file(handle))
            self.refuse_changed(stored)
            yield stored

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make what pyarrow raises in the block a PairFileError."""
        try:
            yield
        except (import_module("pyarrow").ArrowException, OSError) as error:
            raise PairFileError(
                f"{self.path}: the Parquet data is damaged or cut short ({error}); make it again"
            ) from error

    def refuse_changed(self, stored: StoredParquet) -> None:
        """Raise PartChanged where the bytes of the span are not those that were hashed for it."""
        if self.span is None:
            return
        first, rows, sha256 = self.span
        stored.forget()
        with self.reading():
            same = stored.rows >= first + rows - 1 and stored.sha256(first, rows) == sha256
        if not same:
            raise PartChanged.of(self.path, first, rows)


def _parquet_file(handle: IO[bytes]) -> Any:
    return import_module("pyarrow.parquet").ParquetFile(handle)


def _hash_of(handle: IO[bytes], start: int, end: int) -> bytes:
    handle.seek(start)
    digest = hashlib.sha256()
    while start < end and (block := handle.read(min(_BLOCK_BYTES, end - start))):
        digest.update(block)
        start += len(block)
    return digest.digest()
