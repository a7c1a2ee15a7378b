"""Texts in Chinese and English, their width in a figure; spellings of a query; numbers as text; rows as CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

MISSING = "—"
_MINUS = "\N{MINUS SIGN}"
# Characters that XML and HTML forbid, and marks that reverse the direction of the text around them.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def number(value: float | None, digits: int = 3) -> str:
    """An int with thousands separators, a float with `digits` decimals, `—` for None."""
    if value is None:
        return MISSING
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"
    if not shown.strip("-0.,"):
        shown = shown.lstrip("-")
    return shown.replace("-", _MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """As `number`, with a plus sign where the rounded value is positive."""
    shown = number(value, digits)
    return f"+{shown}" if value is not None and value > 0 and shown.strip("0.,") else shown


def shortest(value: float) -> str:
    """`value` with at most three significant digits, or whole: `5`, `2.3`, `0.02`, `4,022`."""
    whole = abs(value) >= 999.5  # where three digits would need an exponent
    return f"{value:,.0f}" if whole else f"{value:.3g}".replace("-", _MINUS)


def digits_for(*values: float | None) -> int:
    """Decimals for a value and its interval: fewer for larger values, none for one whole number."""
    known = [value for value in values if value is not None]
    if len(known) == 1 and known[0].is_integer():
        return 0
    largest = max(map(abs, known), default=0.0)
    return 1 if largest >= 10 else 2 if largest >= 1 else 3


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """`[low, high]`; "" where an end is None."""
    if low is None or high is None:
        return ""
    return f"[{number(low, digits)}, {number(high, digits)}]"


@lru_cache(maxsize=2**16)
def query_key(query: Hashable) -> Hashable:
    """The query that a spelling stands for: NFKC, without case and spaces."""
    if not isinstance(query, str):
        return query
    return "".join(unicodedata.normalize("NFKC", query).casefold().split())


def plain(value: Any) -> str | None:
    """A JSON value on one line: a string as it is, None for null."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def printable(text: str) -> str:
    """`text` with unprintable characters replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def clip(text: str, length: int = 240) -> str:
    """`text` cut to `length` characters, with its full length behind it."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,})"


# Chinese spreadsheets read the full-width signs as formulas too.
_FORMULA_STARTS = tuple("=+-@＝＋－＠\t\r\n")


def spreadsheet_safe(text: str) -> str:
    """`text`, with an apostrophe before it where a spreadsheet would read a formula."""
    text = printable(text)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


@dataclass(frozen=True, slots=True)
class Text:
    """A text in both languages."""

    zh: str
    en: str


Label = str | Text
"""A bilingual text, or a string that needs no translation (a head, a token, a file name)."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 head`, `12 heads`; `plural` where it is irregular."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def in_language(label: Label, language: str) -> str:
    """`label` in `language` (`zh` or `en`)."""
    if isinstance(label, str):
        return label
    return label.zh if language == "zh" else label.en


def join(labels: Iterable[Label], zh: str = "、", en: str = ", ") -> Text:
    """Join the labels that are not empty with each language's separator."""
    pairs = [(in_language(label, "zh"), in_language(label, "en")) for label in labels]
    return Text(
        zh.join(text for text, _ in pairs if text), en.join(text for _, text in pairs if text)
    )


def sentences(texts: Iterable[Text]) -> Text:
    """Sentences one after the other."""
    return join(texts, "", " ")


FONT, SMALL, TIGHT = 13, 12, 10.5
"""Font sizes in pixels: ordinary text, labels and legends, numbers in narrow cells."""

LEADING = 14
# Units of line breaking: a run of letters with the space behind it, or any other character with the
# punctuation that must not begin a line.
_BREAKABLE = re.compile(r"[!-~\u00a0-\u036f]+\s*|.[）」』”’》〉，。；：、！？…]*", re.DOTALL)


# Both languages in one string, for layout.
_PAIR = re.compile("\ue000(.*?)\ue001(.*?)\ue002", re.DOTALL)


def paired(zh: str, en: str) -> str:
    """Both texts in one string that `unpaired` splits, also within a longer text."""
    return zh if zh == en else f"\ue000{zh}\ue001{en}\ue002"


def unpaired(text: str) -> tuple[str, str]:
    """A text that may hold `paired` ones: (Chinese, English)."""
    if "\ue000" not in text:
        return text, text
    return _PAIR.sub(r"\1", text), _PAIR.sub(r"\2", text)


def width_of(text: str, size: float = FONT) -> float:
    """Approximate width in pixels; a Chinese character is as wide as it is high."""
    return max(sum(map(_em, version)) for version in unpaired(text)) * size


def wrap(text: str, width: float, most: int = 2, size: float = SMALL) -> list[str]:
    """`text` in at most `most` lines of `width` pixels; the last line may be cut."""
    zh, en = unpaired(text)
    if zh != en:
        both = (wrap(version, width, most, size) for version in (zh, en))
        return [paired(*line) for line in zip_longest(*both, fillvalue="")]
    lines = [""]
    for piece in _BREAKABLE.findall(text):
        if lines[-1] and width_of((lines[-1] + piece).rstrip(), size) > width:
            lines.append("")
        lines[-1] += piece
    kept = [*lines[: most - 1], "".join(lines[most - 1 :])]
    return [fit(line.strip(), width, size) for line in kept if line]


def fit(text: str, width: float, size: float) -> str:
    """`text` cut to `width` pixels."""
    if width_of(text, size) <= width:
        return text
    zh, en = unpaired(text)
    if zh != en:
        return paired(fit(zh, width, size), fit(en, width, size))
    room, kept = width - size, 0
    while kept < len(text) and room >= _em(text[kept]) * size:
        room -= _em(text[kept]) * size
        kept += 1
    return f"{text[:kept]}…"


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.58


@dataclass(frozen=True, slots=True)
class Words:
    """Printable labels in one language, or `paired` in `both`."""

    language: str

    def __call__(self, label: Label) -> str:
        if self.language == "both" and isinstance(label, Text):
            return paired(printable(label.zh), printable(label.en))
        return printable(in_language(label, self.language))

    def with_unit(self, label: Label, unit: Label) -> str:
        """`share (%)`: a name and its unit, or one of them where they are equal or one is empty."""
        name, of = self(label), self(unit)
        return f"{name} ({of})" if name and of and name != of else name or of


def csv_bytes(rows: Iterable[Iterable[object]]) -> bytes:
    """CSV in UTF-8 with a byte order mark, so that Excel shows Chinese; texts are `spreadsheet_safe`."""
    handle = io.StringIO(newline="")
    writer = csv.writer(handle)
    for row in rows:
        writer.writerow([spreadsheet_safe(cell) if isinstance(cell, str) else cell for cell in row])
    return handle.getvalue().encode("utf-8-sig")
