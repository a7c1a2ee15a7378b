"""Which encoding the bytes of a text file are in: UTF-8 and GB18030 are read, others are named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from qt_bert.errors import PairFileError

UTF8_BOM = b"\xef\xbb\xbf"
ENCODING_VOTES = 10_000

_SAMPLE_BYTES = 2**18
_LEAST_CHARACTERS = 6
"""With fewer different ones nothing is said of what they look like."""
_LEAST_SYLLABLES, _LEAST_KANA = 20, 10
_LOOKS_RIGHT, _BETTER = 0.8, 0.25
"""The share of common characters that another encoding must give, and by how much more than GB18030."""


def encoding_of(lines: Iterable[bytes], path: str) -> str:
    """`utf-8` or `gb18030`, of a file without a byte order mark.

    The first 10,000 lines that are not ASCII vote: each for UTF-8 if it is valid UTF-8, else for GB18030
    if it is that. So a few damaged lines in a UTF-8 file are rejects, not a reason to misread the rest.

    Most bytes of Big5, Shift-JIS, EUC-KR and EUC-JP are valid GB18030 too, of another text. So where
    UTF-8 loses, the characters must be common ones in GB18030, or no more so in the others. Raises
    PairFileError, beginning with `path`, naming the encoding that the bytes look like.
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
        _refuse_others(others, path)
    return "gb18030" if gb18030 > utf8 else "utf-8"


def refuse_utf16(head: bytes, path: str) -> None:
    """Raise PairFileError where the first bytes of a file are UTF-16 without a byte order mark."""
    for codec in ("utf-16-le", "utf-16-be") if b"\0" in head else ():
        text = head[: len(head) & ~1].decode(codec, "replace")
        common = sum("\t" <= c <= "~" or c in _common()["gb18030"] for c in text)
        if re.search("[\t\n,:]", text) and "\0" not in text and common > _LOOKS_RIGHT * len(text):
            raise _refusal(path, "UTF-16", codec.replace("-le", "le").replace("-be", "be"))


def _refuse_others(lines: Sequence[bytes], path: str) -> None:
    share = {codec: _share_common(lines, codec) for codec in _common()}
    found = max(_NAMES, key=lambda codec: share[codec])
    if share[found] > _LOOKS_RIGHT and share[found] >= share["gb18030"] + _BETTER:
        raise _refusal(path, *_NAMES[found])
    # Accents stand alone among ASCII letters; a Chinese character has two such bytes.
    runs = re.findall(rb"[\x80-\xff]+", b"\n".join(lines))
    alone = [one for one in runs if re.fullmatch(rb"[\xc0-\xfe]", one)]
    if len(alone) >= 3 and max(map(len, runs)) <= 2 and len(alone) >= 0.6 * len(runs):
        raise _refusal(path, "Latin-1", "latin1")


def _refusal(path: str, name: str, iconv: str) -> PairFileError:
    return PairFileError(
        f"{path}: looks like {name}, not UTF-8 or GB18030 text; convert it with `iconv -f {iconv} -t "
        "utf-8` (with `-f gb18030` if that is what it is)"
    )


# What common text in an encoding is made of. Chinese counts as such in either script, for GB18030 holds
# both; the hanzi of Korean bytes all come from the first half of the list, and Japanese is full of kana.

_NAMES = {
    "cp950": ("Big5", "big5"),
    "cp932": ("Shift-JIS", "cp932"),
    "cp949": ("EUC-KR", "cp949"),
    "euc_jp": ("EUC-JP", "euc-jp"),
}
_SIGNS = frozenset("，。！？、；：“”‘’（）《》【】「」『』·—…～　×°℃①②③④⑤Ⅰ→") | frozenset(
    map(chr, range(0xFF01, 0xFF5F))
)


_HIRAGANA = frozenset(map(chr, range(0x3041, 0x3097)))


@cache
def _common() -> dict[str, frozenset[str]]:
    """Codec → its common characters."""
    frequent = _table("gb2312", range(0xB0, 0xF8))
    traditional = _table("big5", range(0xA4, 0xC7)) | _SIGNS
    katakana = frozenset(map(chr, range(0x30A1, 0x30FD)))
    japanese = _table("shift_jis", range(0x88, 0x99)) | katakana | _HIRAGANA | _SIGNS
    return {
        "gb18030": frequent | traditional | katakana | frozenset(map(chr, range(0xC0, 0x100))),
        "cp950": traditional,
        "cp932": japanese,
        "cp949": frozenset(map(chr, range(0xAC00, 0xD7A4))) | _SIGNS,
        "euc_jp": japanese,
    }


@cache
def _table(codec: str, leads: range) -> frozenset[str]:
    pairs = (bytes((lead, trail)) for lead in leads for trail in range(0x40, 0xFF))
    return frozenset(filter(None, (_decoded(pair, codec) for pair in pairs)))


def _share_common(lines: Sequence[bytes], codec: str) -> float:
    """Share of the different characters that are common; a line that is not valid counts as rare ones."""
    seen: set[str] = set()
    damaged = 0
    for line in lines:
        text = _decoded(line, codec)
        seen.update(text or "")
        damaged += text is None
    seen = {one for one in seen if "\x80" <= one < "\U0001f000"}  # emoji say nothing
    common = seen & _common()[codec]
    if codec == "gb18030":
        han = seen & _table("gb2312", range(0xB0, 0xF8))
        if len(han) >= _LEAST_SYLLABLES and han <= _table("gb2312", range(0xB0, 0xC9)):
            return 0.0
        if len(seen & _HIRAGANA) >= _LEAST_KANA:
            return 0.5
        if len(seen) < _LEAST_CHARACTERS:
            return 1.0
    return len(common) / max(len(seen), 1) * (1 - damaged / max(len(lines), 1))


def _decoded(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None
