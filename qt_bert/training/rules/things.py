"""Rules that put another thing of the same kind in the place of one."""

from __future__ import annotations

from collections.abc import Callable

from qt_bert.training.rules.lookup import kind_in_text, kinds_of_word, words_of_kind
from qt_bert.training.rules.needs import read_need, said
from qt_bert.training.rules.places import put, shared
from qt_bert.training.rules.rule import Draw, Made, Rule, changed, reworded

_MARKS = ("-", "_", "|", "—")
"""Stand before the name of a site, which says nothing of the page."""

_PLACES = frozenset({"city", "province", "country", "scenic"})


def _subject(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    if need is None or need.subject not in kinds_of_word() or need.subject not in draw.query:
        return None
    kind = draw.rng.choice(need.kinds)
    others = [word for word in words_of_kind()[kind] if word != need.subject]
    return changed(draw, said(need.form, draw.rng.choice(others)))


def _entity(draw: Draw) -> Made | None:
    return _replaced(draw, lambda kind: kind not in _PLACES)


def _place(draw: Draw) -> Made | None:
    return _replaced(draw, lambda kind: kind in _PLACES)


def _replaced(draw: Draw, wanted: Callable[[str], bool]) -> Made | None:
    table = kind_in_text()
    found = shared(draw.query, draw.title, table, draw.segmenter)
    places = [
        place
        for place in found
        if wanted(table[place.word]) and draw.title[place.start - 1 : place.start] not in _MARKS
    ]
    if not places:
        return None
    place = draw.rng.choice(places)
    both = draw.query + draw.title
    others = [word for word in words_of_kind()[table[place.word]] if word not in both]
    other = draw.rng.choice(others)
    return reworded(draw, place.word, other, put(draw.title, place, other))


THINGS = (
    Rule(
        "subject",
        (2,),
        "问的是另一样同类事物",
        "the same is asked of another thing of the kind",
        _subject,
    ),
    Rule(
        "entity",
        (2, 3),
        "文中某样事物换成同类的另一样",
        "a thing in the text gives way to another of its kind",
        _entity,
    ),
    Rule("place", (2, 3), "地名换成另一个", "a place gives way to another", _place),
)
