"""A text file as numbered lines: unpacked, decoded, never held in memory.

Lines end at `\\n` alone; a `\\r` before it goes with it. Bytes are split before they are decoded,
which is safe because `\\n` is never part of a longer character in UTF-8 or GB18030. Lines without a
character are skipped, but counted in the line numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import IO, Protocol

from qt_bert.errors import PairFileError
from qt_bert.pairs.formats.opening import Location, open_bytes
from qt_bert.pairs.pair import Reason, Reject

PACKED_SUFFIXES = (".gz", ".xz")
UTF8_BOM = b"\xef\xbb\xbf"
ENCODING_VOTES = 10_000
MAX_LINE_BYTES = 64 * 2**20
_HEAD_BYTES = 4096

_MAGIC = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"PK\x05\x06": "an empty zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file",
    b"\x1f\x8b": "gzip data: its name must end in .gz",
    b"\xfd7zXZ\x00": "xz data: its name must end in .xz",
    b"BZh91AY&SY": "bzip2 data",
    b"\x28\xb5\x2f\xfd": "zstandard data",
    b"PAR1": "Parquet: its name must end in .parquet",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class Lines(Protocol):
    """Numbered lines of text: a whole file, or some lines of one."""

    @property
    def path(self) -> Location:
        """The file, as messages name it."""

    @property
    def encoding(self) -> str:
        """`utf-8`, `utf-8-sig` or `gb18030`."""

    def lines(self) -> Iterator[tuple[int, str] | Reject]:
        """`(line number from 1, text)`, or the reject of a line that is not valid text."""


class TextSource:
    """The lines of a text file, plain or .gz/.xz, in UTF-8 (with or without BOM) or GB18030.

    Raises PairFileError, at construction or while reading, where the file cannot be read, is
    empty, is no text, is damaged or cut short.
    """

    def __init__(self, path: Location) -> None:
        self.path = path
        with open_bytes(path) as handle:
            self._head = handle.read(_HEAD_BYTES)
        _refuse_binary(path, self._head)

    @cached_property
    def encoding(self) -> str:
        """`utf-8`, `utf-8-sig` or `gb18030`.

        Where there is no BOM, the first 10,000 lines that are not ASCII vote: each for UTF-8 if it
        is valid UTF-8, else for GB18030 if it is that. So a few damaged lines in a UTF-8 file are
        rejects, not a reason to misread the rest.
        """
        if self._head.startswith(UTF8_BOM):
            return "utf-8-sig"
        utf8 = gb18030 = 0
        for _, line in self._raw_lines():
            raw = without_end(line)
            if raw.isascii():
                continue
            if _is_valid(raw, "utf-8"):
                utf8 += 1
            elif _is_valid(raw, "gb18030"):
                gb18030 += 1
            if utf8 + gb18030 == ENCODING_VOTES:
                break
        return "gb18030" if gb18030 > utf8 else "utf-8"

    def lines(self) -> Iterator[tuple[int, str] | Reject]:
        """`(line number from 1, text)`, or the reject of a line that is not valid text."""
        return decoded(self._raw_lines(), self.encoding)

    def _raw_lines(self) -> Iterator[tuple[int, bytes]]:
        with open_bytes(self.path) as handle:
            yield from enumerate(raw_lines(handle, self.path), start=1)


def raw_lines(handle: IO[bytes], path: Location) -> Iterator[bytes]:
    """The lines of an open file with their ends; PairFileError at one longer than 64 MiB."""
    number = 0
    while raw := handle.readline(MAX_LINE_BYTES + 1):
        number += 1
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
    if head.count(0) > len(head) // 4:
        raise PairFileError(
            f"{path}: looks like UTF-16 or binary data (many NUL bytes), "
            "not UTF-8 or GB18030 text; convert it first"
        )


def _is_valid(raw: bytes, encoding: str) -> bool:
    try:
        raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
