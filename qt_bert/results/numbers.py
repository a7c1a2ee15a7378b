"""Numbers and texts as the report and the inspection page show them."""

from __future__ import annotations

import json
import re
from typing import Any

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
