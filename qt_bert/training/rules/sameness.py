"""Rules whose title states the query's need: other words, other order, another hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from random import Random

from qt_bert.training.rules.lookup import alternatives, rows
from qt_bert.training.rules.needs import composed
from qt_bert.training.rules.places import find, put
from qt_bert.training.rules.rule import Draw, Made, Rule
from qt_bert.training.rules.wording import with_courtesy, with_mark, with_synonym

_MIDDLING, _LONG = 7, 10
_CARRIES_MEANING = re.compile("[不没无非未禁0-9零一二三四五六七八九十两]")


def _same(draw: Draw) -> Made | None:
    change = draw.rng.choice((with_mark, with_courtesy, None))
    return Made(draw.query, change(draw.query, draw.rng) if change else draw.query)


def _synonym(draw: Draw) -> Made | None:
    title = with_synonym(draw.query, draw.segmenter, draw.rng)
    return Made(draw.query, title) if title and title != draw.query else None


def _paraphrase(draw: Draw) -> Made | None:
    query, title = composed(draw.rng)
    return Made(query, title)


def _misspelling(draw: Draw) -> Made | None:
    slip = draw.rng.choice((_homophone, _homophone, _dropped, _exchanged, _unconverted))
    query = slip(draw)
    return Made(query, draw.title) if query and query != draw.query else None


def _homophone(draw: Draw) -> str | None:
    query, table = draw.query, _homophones()
    places = [i for i, c in enumerate(query) if c in table and not _CARRIES_MEANING.match(c)]
    if len(query) < 4 or not places:
        return None
    at = draw.rng.choice(places)
    return query[:at] + draw.rng.choice(table[query[at]]) + query[at + 1 :]


def _dropped(draw: Draw) -> str | None:
    query = draw.query
    at = _middle(query, draw.rng) if len(query) >= _LONG else None
    return query[:at] + query[at + 1 :] if at else None


def _exchanged(draw: Draw) -> str | None:
    query = draw.query
    at = _middle(query, draw.rng)
    if not at or _CARRIES_MEANING.match(query[at + 1]):
        return None
    return query[:at] + query[at + 1] + query[at] + query[at + 2 :]


def _middle(query: str, rng: Random) -> int | None:
    """A place inside a query where a slip does not hide what is asked."""
    if len(query) < _MIDDLING:
        return None
    at = rng.randrange(1, len(query) - 1)
    return None if _CARRIES_MEANING.search(query[at - 1 : at + 1]) or query[at].isascii() else at


def _unconverted(draw: Draw) -> str | None:
    table = alternatives("pinyin")
    places = [p for p in find(draw.query, table, draw.segmenter) if not p.word.isascii()]
    if not places:
        return None
    place = draw.rng.choice(places)
    return put(draw.query, place, table[place.word][0])


@cache
def _homophones() -> Mapping[str, list[str]]:
    table: dict[str, list[str]] = {}
    for (group,) in rows("homophones"):
        for character in group:
            table[character] = [c for c in group if c != character]
    return table


SAMENESS = (
    Rule(
        "same",
        (5,),
        "标题就是查询本身，只加了语气词、标点、客套话或网站名",
        "the title is the query itself, with particles, punctuation, courtesies or a site's name",
        _same,
    ),
    Rule(
        "synonym",
        (5,),
        "查询里的一两个词换成同义词",
        "one or two words of the query give way to synonyms",
        _synonym,
    ),
    Rule(
        "paraphrase",
        (5,),
        "同一事物的同一需求换一种说法",
        "the same need of the same thing, put in other words",
        _paraphrase,
    ),
    Rule(
        "misspelling",
        (5,),
        "查询里有同音字、漏字、颠倒的字或没转换的拼音，需求不变",
        "the query has a homophone, a lost or exchanged character or bare pinyin; same need",
        _misspelling,
    ),
)
