"""Changes of wording that leave a text's meaning alone: synonyms, courtesies, tails of titles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random

from qt_bert.pairs.segmenters import Segmenter
from qt_bert.training.rules.lookup import alternatives, rows
from qt_bert.training.rules.needs import other_form, read_need
from qt_bert.training.rules.places import find, put

_QUESTION_END = ("吗", "呢", "啊", "呀", "？", "?", "。", "！", "!")
_FULL_WIDTH = str.maketrans("?!,:()", "？！，：（）")


def with_synonym(text: str, segmenter: Segmenter, rng: Random) -> str | None:
    """`text` with one or two words replaced by synonyms, or in another form of the same need."""
    need = read_need(text)
    form = other_form(need, rng) if need and rng.random() < 0.6 else None
    if form is not None:
        return form
    table = alternatives("synonyms")
    places = find(text, table, segmenter)
    if not places:
        return None
    chosen = rng.sample(places, min(len(places), rng.choice((1, 1, 2))))
    for place in sorted(chosen, reverse=True):
        text = put(text, place, rng.choice(table[place.word]))
    return text


def with_tail(title: str, rng: Random) -> str:
    """`title` with the name of a site or another mark of a page at one end."""
    if rng.random() < 0.15:
        return rng.choice(_texts("tails")["before"]) + title
    return title + rng.choice(_texts("tails")["after"])


def with_courtesy(query: str, rng: Random) -> str:
    """`query` as a person might type it to another person."""
    if rng.random() < 0.6:
        return rng.choice(_texts("courtesies")["before"]) + query
    return query + rng.choice(_texts("courtesies")["after"])


def with_mark(text: str, rng: Random) -> str:
    """`text` with other punctuation, width of signs, case, or a particle at its end."""
    if text.endswith(_QUESTION_END):
        return text.rstrip("".join(_QUESTION_END)) or text
    changes = [text + mark for mark in _texts("tails")["particle"] if mark.strip() and mark != "吗"]
    changes += [text.translate(_FULL_WIDTH), text.upper(), text.lower(), text.replace(" ", "")]
    return rng.choice(changes)


@cache
def _texts(table: str) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for where, text in rows(table):
        found.setdefault(where, []).append(text)
    return found
