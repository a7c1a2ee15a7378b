"""Detect the encoding of a text file: UTF-8 and GB18030 are read, others refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from qt_bert.errors import PairFileError

UTF8_BOM = b"\xef\xbb\xbf"
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


def refuse_utf16(head: bytes, path: str) -> None:
    """Raise PairFileError where separators and line ends in `head` are two bytes, as in UTF-16."""
    for name, marks in (("UTF-16LE", rb"[\t,]\0.*\n\0"), ("UTF-16BE", rb"\0[\t,].*\0\n")):
        if re.search(marks, head, re.DOTALL):
            raise _refusal(path, name)


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
