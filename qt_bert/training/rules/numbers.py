"""Rules that change a number: of a model or an episode, of an amount or an age, of a year."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from qt_bert.training.rules.lookup import rows
from qt_bert.training.rules.rule import Draw, Made, Rule, reworded

_MODEL = re.compile(r"(?<![A-Za-z0-9.])[A-Za-z]{1,8}[- ]?(?P<number>\d{1,4})(?![0-9.%])")
_YEAR = re.compile(r"(?<!\d)(?P<number>(?:19[5-9]|20[0-3])\d)(?!\d)")
_NUMERALS = "一二三四五六七八九十"


def _model(draw: Draw) -> Made | None:
    return _renumbered(draw) or _counted(draw, "point")


def _number(draw: Draw) -> Made | None:
    return _counted(draw, "part")


def _year(draw: Draw) -> Made | None:
    matches = [m for m in _YEAR.finditer(draw.title) if _same_number(draw.query, m[0])]
    if not matches:
        return None
    match = draw.rng.choice(matches)
    year = int(match["number"]) + draw.rng.choice((-3, -2, -1, 1, 2, 3))
    return _with_number(draw, match, str(year))


def _counted(draw: Draw, weight: str) -> Made | None:
    for match in _with_unit(weight).finditer(draw.title):
        smallest, largest = _limits(match["unit"])
        if not _same_number(draw.query, match[0]):
            continue
        number = _changed_number(match["number"], smallest, largest, draw.rng)
        if number is not None:
            return _with_number(draw, match, number)
    return None


def _renumbered(draw: Draw) -> Made | None:
    matches = [m for m in _MODEL.finditer(draw.title) if _same_number(draw.query, m[0])]
    if not matches:
        return None
    match = draw.rng.choice(matches)
    number = _changed_number(match["number"], 1, 9999, draw.rng)
    return _with_number(draw, match, number) if number else None


def _with_number(draw: Draw, match: re.Match[str], number: str) -> Made:
    start, end = (place - match.start() for place in match.span("number"))
    new = match[0][:start] + number + match[0][end:]
    title = draw.title[: match.start()] + new + draw.title[match.end() :]
    return reworded(draw, match[0], new, title)


def _same_number(query: str, text: str) -> bool:
    """Whether the query names the same model or amount, once."""
    return query.lower().count(text.lower()) == 1


def _changed_number(written: str, smallest: int, largest: int, rng: Random) -> str | None:
    """Another number near `written`, in digits or as a numeral as it was, inside the limits."""
    if written in _NUMERALS:
        at = _NUMERALS.index(written)
        return rng.choice(_NUMERALS[max(0, at - 2) : at] + _NUMERALS[at + 1 : at + 3])
    if written.startswith("0"):
        return None
    value, step = int(written), _step(int(written))
    near = [value + step * count for count in (-3, -2, -1, 1, 2, 3)]
    allowed = [n for n in near if smallest <= n <= largest]
    return str(rng.choice(allowed)) if allowed else None


def _step(value: int) -> int:
    """By how much a number is moved: a round one to another round one."""
    for step in (1000, 100, 10):
        if value % step == 0 and value >= 2 * step:
            return step
    return max(1, value // 100)


@cache
def _with_unit(weight: str) -> re.Pattern[str]:
    units = sorted((unit for unit, _, _, w in rows("units") if w == weight), key=len, reverse=True)
    names = "|".join(map(re.escape, units))
    every = "|".join(re.escape(unit) for unit, *_ in rows("units"))
    return re.compile(
        rf"(?<![\d.A-Za-z~至到一二三四五六七八九十百千万几-])(?P<number>\d{{1,4}}|[二三四五六七八九])"
        rf"(?P<unit>{names})(?!{every}|[A-Za-z人半内外之格])"
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
