"""Rules that turn a need around: its negation, its antonym, its opposite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from qt_bert.training.rules.lookup import alternatives, rows, words_of_kind
from qt_bert.training.rules.places import Place, put, shared
from qt_bert.training.rules.rule import Draw, Made, Rule, reworded

_YES_OR_NO = re.compile(
    "吗|嘛|吧|能否|是否|可否|能不能|会不会|是不是|要不要|可不可以|有没有|还是|多长时间|(?<![什怎])么[？?]?$"
)
_CHAT = re.compile("[我你您亲]")
_DENIED = re.compile("[不没无未别非]")
_NOT_DENIED = re.compile("[不没无未别非]|怎|如何|多久|多少|几|哪|什么时|何时|呗")
_OPEN = re.compile("[什哪多几谁没不否有]")
_BOUND = re.compile("[还才只可就都也更谁老总很万一再从并所久的大]")


def _negation(draw: Draw) -> Made | None:
    # A yes-or-no question asks the same with and without the negation.
    both = draw.query + draw.title
    if _YES_OR_NO.search(both) or _CHAT.search(both):
        return None
    table = _turned()
    found = shared(draw.query, draw.title, table, draw.segmenter)
    places = [place for place in found if _stands_free(draw.title, place)]
    if not places:
        return None
    denied = [p for p in places if _DENIED.search(p.word)]
    if not denied and (_NOT_DENIED.search(draw.title) or draw.rng.random() < 0.5):
        return None
    place = draw.rng.choice(denied or places)
    other = table[place.word]
    return reworded(draw, place.word, other, put(draw.title, place, other))


def _stands_free(title: str, place: Place) -> bool:
    """Whether nothing beside the word binds it, and its opposite stands nowhere else."""
    before, after = title[max(0, place.start - 1) : place.start], title[place.end : place.end + 1]
    both = title.count(_turned()[place.word]) > place.word.count(_turned()[place.word])
    return not both and not _BOUND.search(before) and not _OPEN.search(after)


def _antonym(draw: Draw) -> Made | None:
    if _YES_OR_NO.search(draw.query):
        return None
    table = alternatives("antonyms")
    places = [
        place
        for place in shared(draw.query, draw.title, table, draw.segmenter)
        if not any(other in draw.title + draw.query for other in table[place.word])
    ]
    if not places:
        return None
    place = draw.rng.choice(places)
    other = draw.rng.choice(table[place.word])
    return reworded(draw, place.word, other, put(draw.title, place, other))


def _opposite(draw: Draw) -> Made | None:
    rng = draw.rng
    kinds, one, other = rng.choice(rows("opposed"))
    kind = rng.choice(kinds.split(","))
    subject = rng.choice(words_of_kind()[kind]) if kind in words_of_kind() else ""
    sides = [one.split("|"), other.split("|")]
    rng.shuffle(sides)
    query, kept = rng.sample(sides[0], 2)
    query, title, kept = (
        text.replace("{X}", subject) for text in (query, rng.choice(sides[1]), kept)
    )
    return Made(query, title, kept)


@cache
def _turned() -> Mapping[str, str]:
    pairs = rows("negations")
    # 会 stands in too many phrases to be denied; 不会 can be affirmed.
    return {a: b for a, b in pairs if a != "会"} | {b: a for a, b in pairs}


POLARITY = (
    Rule(
        "negation",
        (2,),
        "肯定换成否定或否定换成肯定（能/不能、适合/不适合）",
        "an affirmed word is denied, or a denied one affirmed",
        _negation,
    ),
    Rule(
        "antonym",
        (2,),
        "一个词换成反义词（开通/关闭、上涨/下跌、饭前/饭后）",
        "one word gives way to its antonym",
        _antonym,
    ),
    Rule(
        "opposite",
        (2,),
        "同一事物的相反需求，两边各有多种说法",
        "the opposite need of the same thing, each side put in several ways",
        _opposite,
    ),
)
