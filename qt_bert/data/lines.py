"""The bytes and lines of a text file: found, unpacked, decoded, never held in memory."""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple, Protocol, cast, runtime_checkable

from qt_bert.data.encodings import UTF8_BOM, encoding_of, refuse_utf16
from qt_bert.data.pairs import Reason, Reject
from qt_bert.errors import PairFileError

# The bytes of a file, unpacked: a path of this machine, or what something else can open.


@runtime_checkable
class Readable(Protocol):
    """A file that is no local path, such as one at an address; `str()` names it in messages."""

    @property
    def name(self) -> str:
        """The last part of its path, with the suffixes."""

    def open_input(self) -> IO[bytes]:
        """Its bytes as they are stored, seekable; OSError where they cannot be read."""


Location = Path | Readable


@contextmanager
def open_bytes(path: Location) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a file; what fails while they are read is a PairFileError."""
    with open_stored(path) as (_, unpacked):
        yield unpacked


@contextmanager
def open_stored(path: Location) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The stored bytes of a file and, read through them, the unpacked ones; as `open_bytes`."""
    try:
        with _open(path) as stored, _unpacked(stored, path.name) as unpacked:
            yield stored, unpacked
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise PairFileError(
            f"{path}: the compressed data is damaged or cut short ({error}); fetch or make it again"
        ) from error
    except OSError as error:
        raise PairFileError(f"{path}: cannot be read ({error.strerror or error})") from error


def _open(path: Location) -> IO[bytes]:
    if not isinstance(path, Path):
        return path.open_input()
    if path.is_dir():
        raise PairFileError(f"{path}: is a folder; name a file of pairs in it")
    if path.exists() and not path.is_file():
        raise PairFileError(f"{path}: is not a regular file; save the pairs to a file first")
    return open(path, "rb")


def _unpacked(stored: IO[bytes], name: str) -> IO[bytes]:
    match Path(name).suffix.lower():
        case ".gz":
            return cast(IO[bytes], gzip.open(stored, "rb"))
        case ".xz":
            return cast(IO[bytes], lzma.open(stored, "rb"))
        case _:
            return stored


class PartChanged(PairFileError):
    """A file was rewritten or cut short after its parts were fixed."""

    @classmethod
    def of(cls, file: Location, first: int, rows: int) -> PartChanged:
        """For the `rows` lines from number `first` on."""
        return cls(
            f"{file}: changed since it was scanned (lines {first:,} to {first + rows - 1:,}); "
            "put the file back as it was, or start anew with --overwrite"
        )


# A text file as numbered lines: unpacked, decoded, never held in memory.
#
# Lines end at `\n` alone; a `\r` before it goes with it. Bytes are split before they are decoded,
# which is safe because `\n` is never part of a longer character in UTF-8 or GB18030. Lines without a
# character are skipped, but counted in the line numbers.


PACKED_SUFFIXES = (".gz", ".xz")
MAX_LINE_BYTES = 64 * 2**20
MAX_EMPTY_LINES = 1_000_000
_HEAD_BYTES = 65_536

_MAGIC = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"PK\x05\x06": "an empty zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file",
    b"\x1f\x8b": "gzip data: its name must end in .gz",
    b"\xfd7zXZ\x00": "xz data: its name must end in .xz",
    b"BZh91AY&SY": "bzip2 data",
    b"\x28\xb5\x2f\xfd": "zstandard data",
    b"PAR1": "Parquet: its name must end in .parquet",
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class TextSource:
    """The lines of a text file, plain or .gz/.xz, in UTF-8 (with or without BOM) or GB18030.

    Raises PairFileError, at construction or while reading, where the file cannot be read, is
    empty, is no text, is damaged or cut short.
    """

    def __init__(self, path: Location) -> None:
        self.path = path
        with open_bytes(path) as handle:
            self.head = handle.read(_HEAD_BYTES)
        _refuse_binary(path, self.head)

    @cached_property
    def encoding(self) -> str:
        """`utf-8`, `utf-8-sig` or `gb18030`; PairFileError naming another that it looks like."""
        if self.head.startswith(UTF8_BOM):
            return "utf-8-sig"
        return encoding_of((without_end(line) for _, line in self._raw_lines()), str(self.path))

    def lines(self, joined: Joined = iter) -> Iterator[tuple[int, str] | Reject]:
        """`(line number from 1, text)`, or the reject of a line that is not valid text; `joined` makes
        rows of the lines that belong together."""
        return decoded(joined(self._raw_lines()), self.encoding)

    def _raw_lines(self) -> Iterator[tuple[int, bytes]]:
        with open_bytes(self.path) as handle:
            yield from enumerate(raw_lines(handle, self.path), start=1)


@dataclass(frozen=True)
class TextBlock:
    """The lines from number `first` on whose unpacked bytes are `data`.

    `encoding` is that of the whole file, and `header` the line that says which columns there are,
    where one does: it is given as line 0, before all others.
    """

    path: Location
    data: bytes
    first: int
    encoding: str
    header: str | None = None

    def lines(self, joined: Joined = iter) -> Iterator[tuple[int, str] | Reject]:
        """`(line number, text)`, or the reject of a line that is not valid text."""
        if self.header is not None:
            yield 0, self.header
        yield from decoded(joined(enumerate(BytesIO(self.data), start=self.first)), self.encoding)


Joined = Callable[[Iterable[tuple[int, bytes]]], Iterable[tuple[int, bytes]]]
"""Makes rows, each with the number of its first line, of numbered lines with their ends."""

Lines = TextSource | TextBlock
"""Numbered lines of text: a whole file, or some lines of one."""


def raw_lines(handle: IO[bytes], path: Location) -> Iterator[bytes]:
    """The lines of an open file with their ends.

    Raises PairFileError at one longer than 64 MiB, and behind a million empty lines in a row.
    """
    number = empty = 0
    while raw := handle.readline(MAX_LINE_BYTES + 1):
        number += 1
        empty = 0 if raw.strip() else empty + 1
        if empty > MAX_EMPTY_LINES:
            raise PairFileError(
                f"{path}: {MAX_EMPTY_LINES:,} empty lines in a row up to line {number:,}; "
                "a file of pairs has one pair a line"
            )
        if len(raw) > MAX_LINE_BYTES:
            raise PairFileError(
                f"{path}: line {number} is longer than {MAX_LINE_BYTES >> 20} MiB; "
                "a file of pairs has one pair a line"
            )
        yield raw


def decoded(
    lines: Iterable[tuple[int, bytes]], encoding: str
) -> Iterator[tuple[int, str] | Reject]:
    """Numbered lines with their ends as text without them; a line that is not text is a reject."""
    codec = "gb18030" if encoding == "gb18030" else "utf-8"
    for number, raw in lines:
        raw = without_end(raw)
        try:
            text = raw.decode(codec)
        except UnicodeDecodeError:
            yield Reject.of(number, Reason.UNDECODABLE, raw.decode(codec, "replace"))
            continue
        if number == 1:
            text = text.removeprefix("\ufeff")
        if text:
            yield number, text


def without_end(raw: bytes) -> bytes:
    """A line without `\\n`, and without a `\\r` before it."""
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def _refuse_binary(path: Location, head: bytes) -> None:
    if not head:
        raise PairFileError(f"{path}: the file is empty")
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            raise PairFileError(f"{path}: is {kind}, not UTF-8 or GB18030 text; convert it first")
    plain = re.sub(rb'"[^"]*(?:"|\Z)', b"", head)  # a cell in quotes may hold other breaks
    if b"\r" in plain[:-1] and b"\n" not in plain:
        raise PairFileError(
            f"{path}: lines end at CR alone, as Excel for Mac writes them; save it as UTF-8 CSV, or make "
            "line feeds of them with tr '\\r' '\\n'"
        )
    refuse_utf16(head, str(path))
    if head.count(0) > len(head) // 4:
        raise PairFileError(
            f"{path}: looks like UTF-16 or binary data (many NUL bytes), "
            "not UTF-8 or GB18030 text; convert it first"
        )


# What every format hands to the reader: rows whose texts are not yet judged.


NO_EXTRA: Mapping[str, str] = {}


class RawRow(NamedTuple):
    """One row as text; `text` is what a rejects file would show of it."""

    line: int
    query: str
    title: str
    grade: str | None
    id: str | None
    extra: Mapping[str, str]
    text: str


class Head(NamedTuple):
    """The line that says which columns there are; the rows stand behind the line `number`."""

    number: int
    text: str
