"""Stream the lines of a text file: opened, decompressed, decoded."""

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

from qt_bert.data.pairs import Reason, Reject
from qt_bert.errors import PairFileError


@runtime_checkable
class Readable(Protocol):
    """A file that is no local path, such as an object in a bucket; `str()` names it in messages."""

    @property
    def name(self) -> str:
        """The last part of its path, with suffixes."""

    def open_input(self) -> IO[bytes]:
        """The stored bytes, seekable. Raises OSError."""


Location = Path | Readable


@contextmanager
def open_bytes(path: Location) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a file; read errors in the block become PairFileError."""
    with open_stored(path) as (_, unpacked):
        yield unpacked


@contextmanager
def open_stored(path: Location) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The stored bytes of a file and, read through them, the decompressed ones; as `open_bytes`."""
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


# Numbered lines.
#
# Lines end at `\n` or `\r\n`. Bytes are split before they are decoded: `\n` is never part of a longer
# character in UTF-8 or GB18030. Empty lines are skipped, but counted in the line numbers.


PACKED_SUFFIXES = (".gz", ".xz")
UTF8_BOM = b"\xef\xbb\xbf"
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

ENCODING_VOTES = 10_000

_SAMPLE_BYTES = 2**14
_OTHERS = {
    "Big5": (9, ("big5", "cp950")),
    "Shift-JIS": (9, ("shift_jis", "cp932")),
    "EUC-JP": (9, ("euc_j",)),
    "EUC-KR": (20, ("euc_kr", "cp949", "johab")),
    "ISO-8859-1": (4, ("latin", "iso8859", "cp125")),
}
"""iconv's name → the least number of distinct non-ASCII characters (a few rare ones look like another
encoding), and prefixes of charset-normalizer's codec names."""


class TextSource:
    """The lines of a text file, plain or .gz/.xz, in UTF-8 (with or without BOM) or GB18030.

    Raises PairFileError, at construction or while reading, where the file is unreadable, empty, not
    text, damaged or truncated.
    """

    def __init__(self, path: Location) -> None:
        self.path = path
        with open_bytes(path) as handle:
            self.head = handle.read(_HEAD_BYTES)
        _refuse_binary(path, self.head)

    @cached_property
    def encoding(self) -> str:
        """`utf-8`, `utf-8-sig` or `gb18030`. Raises PairFileError where it looks like another."""
        if self.head.startswith(UTF8_BOM):
            return "utf-8-sig"
        return encoding_of((without_end(line) for _, line in self._raw_lines()), str(self.path))

    def lines(self, join_lines: LineJoiner = iter) -> Iterator[tuple[int, str] | Reject]:
        """`(line number from 1, text)`, or a Reject where it is not valid text."""
        return decoded(join_lines(self._raw_lines()), self.encoding)

    def texts(self) -> Iterator[tuple[int, str]]:
        """The same lines; raises PairFileError for one that is not valid text."""
        for item in self.lines():
            if isinstance(item, Reject):
                raise PairFileError(
                    f"{self.path}: line {item.line}: {item.reason}; convert it to UTF-8"
                )
            yield item

    def _raw_lines(self) -> Iterator[tuple[int, bytes]]:
        with open_bytes(self.path) as handle:
            yield from enumerate(raw_lines(handle, self.path), start=1)


@dataclass(frozen=True)
class TextBlock:
    """The lines from number `first` on, whose decompressed bytes are `data`.

    `encoding` is the whole file's. `header`, the line that names the columns, is yielded as line 0.
    """

    path: Location
    data: bytes
    first: int
    encoding: str
    header: str | None = None

    def lines(self, join_lines: LineJoiner = iter) -> Iterator[tuple[int, str] | Reject]:
        """`(line number, text)`, or the reject of a line that is not valid text."""
        if self.header is not None:
            yield 0, self.header
        yield from decoded(
            join_lines(enumerate(BytesIO(self.data), start=self.first)), self.encoding
        )


LineJoiner = Callable[[Iterable[tuple[int, bytes]]], Iterable[tuple[int, bytes]]]
"""Numbered lines with their ends → rows, each with the number of its first line."""

Lines = TextSource | TextBlock
"""Numbered lines of text: a whole file, or some lines of one."""


def raw_lines(handle: IO[bytes], path: Location) -> Iterator[bytes]:
    """Lines with their ends. Raises PairFileError over 64 MiB, or for a million empty ones."""
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
    unquoted = re.sub(rb'"[^"]*(?:"|\Z)', b"", head)  # a quoted cell may hold other breaks
    if b"\r" in unquoted[:-1] and b"\n" not in unquoted:
        raise PairFileError(
            f"{path}: lines end at CR alone, as Excel for Mac writes them; save it as UTF-8 CSV, or make "
            "line feeds of them with tr '\\r' '\\n'"
        )
    for name, marks in (("UTF-16LE", rb"[\t,]\0.*\n\0"), ("UTF-16BE", rb"\0[\t,].*\0\n")):
        if re.search(marks, head, re.DOTALL):  # separators and line ends of two bytes
            raise _refusal(str(path), name)
    if head.count(0) > len(head) // 4:
        raise PairFileError(
            f"{path}: looks like UTF-16 or binary data (many NUL bytes), "
            "not UTF-8 or GB18030 text; convert it first"
        )


def encoding_of(lines: Iterable[bytes], path: str) -> str:
    """`utf-8` or `gb18030`, for a file without a byte order mark.

    The first 10,000 non-ASCII lines vote: for UTF-8 if valid, else for GB18030 if valid; so a few
    damaged lines of a UTF-8 file are rejects, not a reason to misread the rest.

    Most bytes of Big5, Shift-JIS and EUC-KR are also valid GB18030. Raises PairFileError, beginning
    with `path`, where UTF-8 loses and the bytes look like one of them.
    """
    utf8 = gb18030 = 0
    sample = b""
    for raw in lines:
        if raw.isascii():
            continue
        if _is_valid(raw, "utf-8"):
            utf8 += 1
        else:
            gb18030 += _is_valid(raw, "gb18030")
            sample += raw + b"\n" if len(sample) < _SAMPLE_BYTES else b""
        if utf8 + gb18030 == ENCODING_VOTES:
            break
    if gb18030 > utf8 or not utf8:
        _refuse_other(sample, path)
    return "gb18030" if gb18030 > utf8 else "utf-8"


def _refuse_other(sample: bytes, path: str) -> None:
    from charset_normalizer import from_bytes

    best = from_bytes(sample[:_SAMPLE_BYTES]).best()
    characters = {char for char in sample.decode("gb18030", "replace") if char > "\x7f"}
    mostly_ascii = 2 * sum(byte > 0x7F for byte in sample) < len(sample)
    for name, (least, codecs) in _OTHERS.items():
        if best is None or not best.encoding.startswith(codecs) or len(characters) < least:
            continue
        if mostly_ascii or name != "ISO-8859-1":
            raise _refusal(path, name)


def _refusal(path: str, name: str) -> PairFileError:
    return PairFileError(
        f"{path}: looks like {name}, not UTF-8 or GB18030 text; convert it with `iconv -f {name} -t utf-8` "
        "(with `-f gb18030` if that is what it is)"
    )


def _is_valid(raw: bytes, codec: str) -> bool:
    try:
        raw.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


NO_EXTRA: Mapping[str, str] = {}


class RawRow(NamedTuple):
    """One unchecked row; `text` is its excerpt for a rejects file."""

    line: int
    query: str
    title: str
    grade: str | None
    id: str | None
    extra: Mapping[str, str]
    text: str


class Header(NamedTuple):
    """The line that names the columns; rows follow this line."""

    line: int
    text: str
