"""Finding the words of a table inside a text, at the borders of its words."""

from __future__ import annotations

from collections.abc import Container
from random import Random
from typing import NamedTuple

from qt_bert.pairs.segmenters import Segmenter

_MOST_TOKENS = 4


class Place(NamedTuple):
    """Characters [start, end) of a text, and the word that stands there."""

    start: int
    end: int
    word: str


def find(text: str, table: Container[str], segmenter: Segmenter) -> list[Place]:
    """Where words of `table` stand in `text`, longest first at each place, without overlap."""
    spans = segmenter.spans(text)
    places: list[Place] = []
    free = 0
    for i, (start, _) in enumerate(spans):
        if start < free:
            continue
        for _, end in reversed(spans[i : i + _MOST_TOKENS]):
            if text[start:end] in table:
                places.append(Place(start, end, text[start:end]))
                free = end
                break
    return places


def shared(query: str, title: str, table: Container[str], segmenter: Segmenter) -> list[Place]:
    """The places of `find` in `title` whose word stands in `query` too, once in each."""
    return [
        place
        for place in find(title, table, segmenter)
        if query.count(place.word) == 1 and title.count(place.word) == 1
    ]


def put(text: str, place: Place, word: str) -> str:
    """`text` with `word` at `place`."""
    return text[: place.start] + word + text[place.end :]


def exchange(text: str, first: Place, second: Place) -> str:
    """`text` with the words at two places, the first before the second, exchanged."""
    return put(put(text, second, first.word), first, second.word)


def chosen(places: list[Place], rng: Random) -> Place | None:
    """One of `places`, or None where there is none."""
    return rng.choice(places) if places else None
