"""Words a reader sees, in Chinese and in English; numbers as text; rows as CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

# Numbers and texts as the report and the inspection page show them.


MISSING = "—"
_MINUS = "\N{MINUS SIGN}"
# Characters that XML and HTML cannot hold, and direction marks that reorder what stands around.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def number(value: float | None, digits: int = 3) -> str:
    """A count with thousands apart, a measure with `digits` after the point, `—` for none."""
    if value is None:
        return MISSING
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"
    if not shown.strip("-0.,"):
        shown = shown.lstrip("-")
    return shown.replace("-", _MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """A change: as `number`, with a plus where it is above what `digits` can show as nothing."""
    shown = number(value, digits)
    return f"+{shown}" if value is not None and value > 0 and shown.strip("0.,") else shown


def shortest(value: float) -> str:
    """A number in three digits at most, without those that say nothing: `5`, `2.3`, `0.02`."""
    return f"{value:.3g}".replace("-", _MINUS)


def digits_for(*values: float | None) -> int:
    """Digits after the point that suit a value and its interval: fewer for larger ones.

    A whole number alone, such as a count of heads, needs none.
    """
    known = [value for value in values if value is not None]
    if len(known) == 1 and known[0].is_integer():
        return 0
    largest = max(map(abs, known), default=0.0)
    return 1 if largest >= 10 else 2 if largest >= 1 else 3


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """An interval's ends in brackets, empty when one is missing."""
    if low is None or high is None:
        return ""
    return f"[{number(low, digits)}, {number(high, digits)}]"


def plain(value: Any) -> str | None:
    """A JSON value in one line: texts as they are, nothing for none."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def printable(text: str) -> str:
    """`text` with everything that a page cannot hold replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def clip(text: str, length: int = 240) -> str:
    """`text`, its end cut off beyond `length` characters and the full length said."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,})"


# Spreadsheets in Chinese take the full-width signs for the others.
_FORMULA_STARTS = tuple("=+-@＝＋－＠\t\r\n")


def spreadsheet_safe(text: str) -> str:
    """`text` with an apostrophe before it where a spreadsheet would take it for a formula."""
    text = printable(text)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


# Words a reader sees, in Chinese and in English, and the room that they take in a picture.


@dataclass(frozen=True, slots=True)
class Text:
    """The same statement in both languages."""

    zh: str
    en: str


Label = str | Text
"""A name: bilingual, or one string (a head, a token, a file name) that needs no translation."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things in English: `1 head`, `12 heads`; `plural` where it is no added s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def joined(sentences: Iterable[Text]) -> Text:
    """Sentences one after the other; empty ones leave no space."""
    said = list(sentences)
    return Text("".join(one.zh for one in said), " ".join(one.en for one in said if one.en))


def in_language(label: Label, language: str) -> str:
    """The words of `label` in `language` (`zh` or `en`)."""
    if isinstance(label, str):
        return label
    return label.zh if language == "zh" else label.en


def listed(labels: Iterable[Label], zh: str = "、", en: str = ", ") -> Text:
    """Join labels with each language's separator."""
    said = list(labels)
    return Text(
        zh.join(in_language(one, "zh") for one in said),
        en.join(in_language(one, "en") for one in said),
    )


FONT, SMALL, TIGHT = 13, 12, 10.5
"""Pixels of ordinary text, of labels and legends, and of numbers in narrow cells."""

LEADING = 14
# What a line may end after: a run of letters with the space behind it, or any other character with
# the punctuation that must not begin a line.
_BREAKABLE = re.compile(r"[!-~\u00a0-\u036f]+\s*|.[）」』”’》〉，。；：、！？…]*", re.DOTALL)


# A text in both languages at once, as long as it is only laid out.
_PAIR = re.compile("\ue000(.*?)\ue001(.*?)\ue002", re.DOTALL)


def paired(zh: str, en: str) -> str:
    """Both texts in one string, which stays whole where others are joined to it."""
    return zh if zh == en else f"\ue000{zh}\ue001{en}\ue002"


def unpaired(text: str) -> tuple[str, str]:
    """A text that may hold paired ones, in Chinese and in English."""
    if "\ue000" not in text:
        return text, text
    return _PAIR.sub(r"\1", text), _PAIR.sub(r"\2", text)


def width_of(text: str, size: float = FONT) -> float:
    """About how many pixels a text takes: a Chinese character is as wide as it is high."""
    return max(sum(map(_em, one)) for one in unpaired(text)) * size


def wrap(text: str, width: float, most: int = 2, size: float = SMALL) -> list[str]:
    """`text` in at most `most` lines of `width` pixels; what is too long loses its end."""
    zh, en = unpaired(text)
    if zh != en:
        both = (wrap(one, width, most, size) for one in (zh, en))
        return [paired(*line) for line in zip_longest(*both, fillvalue="")]
    lines = [""]
    for piece in _BREAKABLE.findall(text):
        if lines[-1] and width_of((lines[-1] + piece).rstrip(), size) > width:
            lines.append("")
        lines[-1] += piece
    kept = [*lines[: most - 1], "".join(lines[most - 1 :])]
    return [fit(line.strip(), width, size) for line in kept if line]


def fit(text: str, width: float, size: float) -> str:
    """`text`, its end cut off where it would not fit into `width` pixels."""
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
    """Labels in one language or `both`, with nothing in them that a browser cannot show."""

    language: str

    def __call__(self, label: Label) -> str:
        if self.language == "both" and isinstance(label, Text):
            return paired(printable(label.zh), printable(label.en))
        return printable(in_language(label, self.language))

    def with_unit(self, label: Label, unit: Label) -> str:
        """`share (%)`: a name and its unit, or either alone where one is all there is to say."""
        name, of = self(label), self(unit)
        return f"{name} ({of})" if name and of and name != of else name or of


def csv_bytes(rows: Iterable[Iterable[object]]) -> bytes:
    """UTF-8 with a byte order mark, so that Excel shows Chinese.

    A text that a spreadsheet would take for a formula gets a leading apostrophe.
    """
    handle = io.StringIO(newline="")
    writer = csv.writer(handle)
    for row in rows:
        writer.writerow([spreadsheet_safe(one) if isinstance(one, str) else one for one in row])
    return handle.getvalue().encode("utf-8-sig")
