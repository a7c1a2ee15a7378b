"""Rules that change a number: of a model or an episode, of an amount or an age, of a year."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from qt_bert.training.rules.rule import Draw, Made, Rule, changed
from qt_bert.training.rules.tables import rows

_MODEL = re.compile(r"(?<![A-Za-z0-9.])[A-Za-z]{1,8}[- ]?(\d{1,4})(?![0-9.%])")
_YEAR = re.compile(r"(?<!\d)((?:19[5-9]|20[0-3])\d)(?!\d)")
_NUMERALS = "一二三四五六七八九十"
_NEARBY = (-10, -5, -3, -2, -1, 1, 2, 3, 5, 10)


def _model(draw: Draw) -> Made | None:
    return _renumbered(draw, _MODEL, 1, 9999) or _counted(draw, "point")


def _number(draw: Draw) -> Made | None:
    return _counted(draw, "part")


def _year(draw: Draw) -> Made | None:
    return _renumbered(draw, _YEAR, 1950, 2039)


def _counted(draw: Draw, weight: str) -> Made | None:
    for match in _with_unit(weight).finditer(draw.title):
        smallest, largest = _limits(match["unit"])
        written = match["number"]
        if not _same_number(draw.query, match["number"] + match["unit"], match[0]):
            continue
        number = _changed_number(written, smallest, largest, draw.rng)
        if number is not None:
            start, end = match.span("number")
            return changed(draw, draw.title[:start] + number + draw.title[end:])
    return None


def _renumbered(draw: Draw, pattern: re.Pattern[str], smallest: int, largest: int) -> Made | None:
    matches = [m for m in pattern.finditer(draw.title) if _same_number(draw.query, m[0], m[0])]
    if not matches:
        return None
    match = draw.rng.choice(matches)
    number = _changed_number(match[1], smallest, largest, draw.rng)
    if number is None:
        return None
    return changed(draw, draw.title[: match.start(1)] + number + draw.title[match.end(1) :])


def _same_number(query: str, *texts: str) -> bool:
    """Whether the query names the same amount, once."""
    return any(query.lower().count(text.lower()) == 1 for text in texts)


def _changed_number(written: str, smallest: int, largest: int, rng: Random) -> str | None:
    """Another number near `written`, in digits or as a numeral as it was, inside the limits."""
    if written in _NUMERALS:
        at = _NUMERALS.index(written)
        return rng.choice(_NUMERALS[max(0, at - 2) : at] + _NUMERALS[at + 1 : at + 3])
    if written.startswith("0"):
        return None
    value = int(written)
    scale = max(1, value // 100) if value >= 200 and largest != 2039 else 1
    near = [value + step * scale for step in _NEARBY]
    allowed = [n for n in near if smallest <= n <= largest and len(str(n)) <= len(written) + 1]
    close = [n for n in allowed if abs(n - value) <= 3 * scale]
    return str(rng.choice(close or allowed)) if allowed else None


@cache
def _with_unit(weight: str) -> re.Pattern[str]:
    units = sorted((unit for unit, _, _, w in rows("units") if w == weight), key=len, reverse=True)
    names = "|".join(map(re.escape, units))
    every = "|".join(re.escape(unit) for unit, *_ in rows("units"))
    return re.compile(
        rf"(?<![\d.A-Za-z一二三四五六七八九十百千万几])(?P<number>\d{{1,4}}|[二三四五六七八九])"
        rf"(?P<unit>{names})(?!{every}|[A-Za-z人半内外])"
    )


@cache
def _limits(unit: str) -> tuple[int, int]:
    return next((int(low), int(high)) for u, low, high, _ in rows("units") if u == unit)


NUMBERS = (
    Rule(
        "model",
        (2,),
        "型号、集数、年级、线路等要害数字变了",
        "a model, episode, class or line has another number, which is the point",
        _model,
    ),
    Rule(
        "number",
        (2, 3),
        "年龄、数量、金额、尺寸变了",
        "an age, amount, price or size is another",
        _number,
    ),
    Rule("year", (2, 3), "年份变了", "the year is another", _year),
)
