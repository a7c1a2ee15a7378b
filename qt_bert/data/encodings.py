"""Which encoding a text file is in: UTF-8 and GB18030 are read, others are named."""

from __future__ import annotations

from collections.abc import Iterable

from qt_bert.errors import PairFileError

UTF8_BOM = b"\xef\xbb\xbf"
ENCODING_VOTES = 10_000

_SAMPLE_BYTES = 2**14
_LEAST_BYTES = 80
"""So many bytes of text beyond ASCII tell encodings apart; with fewer GB18030 is not doubted."""
_OTHERS = {
    "Big5": ("big5", "cp950"),
    "Shift-JIS": ("shift_jis", "cp932"),
    "EUC-JP": ("euc_j",),
    "EUC-KR": ("euc_kr", "cp949", "johab"),
    "ISO-8859-1": ("latin", "iso8859", "cp125"),
    "UTF-16LE": ("utf_16_le",),
    "UTF-16BE": ("utf_16_be",),
}
"""What is named, as iconv calls it, and how the codecs begin that charset-normalizer finds."""


def encoding_of(lines: Iterable[bytes], path: str) -> str:
    """`utf-8` or `gb18030`, of a file without a byte order mark.

    The first 10,000 lines that are not ASCII vote: each for UTF-8 if it is valid UTF-8, else for GB18030
    if it is that. So a few damaged lines in a UTF-8 file are rejects, not a reason to misread the rest.

    Most bytes of Big5, Shift-JIS and EUC-KR are valid GB18030 too, of another text: where UTF-8 loses,
    PairFileError, beginning with `path`, as `refuse_other` raises it.
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
        refuse_other(sample, path)
    return "gb18030" if gb18030 > utf8 else "utf-8"


def refuse_other(sample: bytes, path: str) -> None:
    """Raise PairFileError, beginning with `path`, where some bytes of a file are text in an encoding that
    is not read."""
    sample = sample[:_SAMPLE_BYTES]
    beyond = sum(byte > 0x7F or byte == 0 for byte in sample)
    if beyond < _LEAST_BYTES:
        return
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    if best is None:
        return
    for name, codecs in _OTHERS.items():
        latin = (
            name == "ISO-8859-1"
        )  # accents among ASCII letters: bytes of no text are called so, too
        if best.encoding.startswith(codecs) and not (latin and 2 * beyond > len(sample)):
            raise PairFileError(
                f"{path}: looks like {name}, not UTF-8 or GB18030 text; convert it with `iconv -f {name} "
                "-t utf-8` (with `-f gb18030` if that is what it is)"
            )


def _is_valid(raw: bytes, codec: str) -> bool:
    try:
        raw.decode(codec)
    except UnicodeDecodeError:
        return False
    return True
