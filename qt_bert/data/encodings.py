"""Which encoding a text file is in: UTF-8 and GB18030 are read, others are named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from qt_bert.errors import PairFileError

UTF8_BOM = b"\xef\xbb\xbf"
ENCODING_VOTES = 10_000

_SAMPLE_BYTES = 2**18
_LEAST_CHARACTERS, _LEAST_SYLLABLES = 6, 20
_LOOKS_RIGHT, _BETTER = 0.8, 0.25
"""The share of common characters that another encoding must give, and by how much more than GB18030."""


def encoding_of(lines: Iterable[bytes], path: str) -> str:
    """`utf-8` or `gb18030`, of a file without a byte order mark.

    The first 10,000 lines that are not ASCII vote: each for UTF-8 if it is valid UTF-8, else for GB18030
    if it is that. So a few damaged lines in a UTF-8 file are rejects, not a reason to misread the rest.

    Most bytes of Big5, Shift-JIS and EUC-KR are valid GB18030 too, of another text: PairFileError,
    beginning with `path`, where one of them gives more common characters, and for Latin-1.
    """
    utf8 = gb18030 = size = 0
    others: list[bytes] = []
    for raw in lines:
        if raw.isascii():
            continue
        if _decoded(raw, "utf-8") is not None:
            utf8 += 1
        else:
            gb18030 += _decoded(raw, "gb18030") is not None
            if size < _SAMPLE_BYTES:
                others.append(raw)
                size += len(raw)
        if utf8 + gb18030 == ENCODING_VOTES:
            break
    if gb18030 > utf8 or not utf8:
        share = {codec: _share_common(others, codec) for codec in _common()}
        found = max(share, key=lambda codec: share[codec])
        if share[found] > max(_LOOKS_RIGHT, share["gb18030"] + _BETTER):
            raise _refusal(path, found)
        # Accents stand alone among ASCII letters; a Chinese character has two such bytes.
        runs = re.findall(rb"[\x80-\xff]+", b"\n".join(others))
        alone = sum(re.fullmatch(rb"[\xc0-\xfe]", run) is not None for run in runs)
        if alone >= 3 and alone >= 0.6 * len(runs) and max(map(len, runs)) <= 2:
            raise _refusal(path, "latin1")
    return "gb18030" if gb18030 > utf8 else "utf-8"


def refuse_utf16(head: bytes, path: str) -> None:
    """Raise PairFileError where the first bytes of a file are UTF-16 without a byte order mark."""
    for codec in ("utf-16le", "utf-16be") if b"\0" in head else ():
        text = head[: len(head) & ~1].decode(codec, "replace")
        common = sum("\t" <= one <= "~" or one in _common()["gb18030"] for one in text)
        if re.search("[\t\n]", text) and "\0" not in text and common > _LOOKS_RIGHT * len(text):
            raise _refusal(path, codec)


def _refusal(path: str, codec: str) -> PairFileError:
    return PairFileError(
        f"{path}: looks like {_NAMES.get(codec, codec)}, not UTF-8 or GB18030 text; convert it with "
        f"`iconv -f {codec} -t utf-8` (with `-f gb18030` if that is what it is)"
    )


_NAMES = {
    "cp950": "Big5",
    "cp932": "Shift-JIS",
    "cp949": "EUC-KR",
    "latin1": "Latin-1",
} | dict.fromkeys(("utf-16le", "utf-16be"), "UTF-16")


@cache
def _common() -> dict[str, frozenset[str]]:
    """Codec → its common characters; those of GB18030 are Chinese in either script."""
    signs = {*"，。！？、；：“”‘’（）《》【】「」『』·—…～　×°℃①②③④⑤Ⅰ→", *_range(0xFF01, 0xFF5F)}
    traditional = _table("big5", range(0xA4, 0xC7)) | signs
    kana = _range(0x3041, 0x30FD)
    latin = _range(0xC0, 0x100)
    return {
        "gb18030": traditional
        | _table("gb2312", range(0xB0, 0xF8))
        | _range(0x30A1, 0x30FD)
        | latin,
        "cp950": traditional,
        "cp932": _table("shift_jis", range(0x88, 0x99)) | kana | signs,
        "cp949": _range(0xAC00, 0xD7A4) | signs,
    }


def _range(first: int, end: int) -> frozenset[str]:
    return frozenset(map(chr, range(first, end)))


@cache
def _table(codec: str, leads: range) -> frozenset[str]:
    pairs = (bytes((lead, trail)) for lead in leads for trail in range(0x40, 0xFF))
    return frozenset(filter(None, (_decoded(pair, codec) for pair in pairs)))


def _share_common(lines: Sequence[bytes], codec: str) -> float:
    """Share of the different characters that are common; a line that is not valid has none."""
    texts = [text for line in lines if (text := _decoded(line, codec)) is not None]
    seen = {one for one in set().union(*texts) if "\x80" <= one < "\U0001f000"}  # emoji say nothing
    if codec == "gb18030":
        if len(seen) < _LEAST_CHARACTERS:
            return 1.0
        # The hanzi that Korean bytes give all come from the first half of the list.
        han = seen & _table("gb2312", range(0xB0, 0xF8))
        if len(han) >= _LEAST_SYLLABLES and han <= _table("gb2312", range(0xB0, 0xC9)):
            return 0.0
    return len(seen & _common()[codec]) / max(len(seen), 1) * len(texts) / max(len(lines), 1)


def _decoded(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None
