"""Terms that a query and a title share, and the characters and words that say nothing of their own."""

from __future__ import annotations

from typing import NamedTuple

from qt_bert.pairs.segmenters import Segmenter, Span

STOP_CHARACTERS = frozenset("的了是在和与及或吗呢吧啊呀嘛么怎什就都也还很把被从到于以之这那个")
"""Function characters that a query and a title share whatever they are about."""


def is_stop(character: str) -> bool:
    """Whether it is a function character."""
    return character in STOP_CHARACTERS


def is_punctuation(character: str) -> bool:
    """Whether it is neither a letter, a Chinese character nor a digit, nor white space."""
    return not (character.isalnum() or character.isspace())


def is_content(character: str) -> bool:
    """Whether it is a letter, a Chinese character or a digit, and no function character."""
    return character.isalnum() and not is_stop(character)


def is_content_word(word: str) -> bool:
    """Whether any of its characters is content."""
    return any(map(is_content, word))


class Shared(NamedTuple):
    """Where one term stands in the query and in the title, as characters [start, end)."""

    query: list[Span]
    title: list[Span]


def shared_terms(query: str, title: str, segmenter: Segmenter) -> dict[str, Shared]:
    """The words that stand in both texts, with all their places, in the order of the query.

    Words are whole to the segmenter in both texts; case does not count; function words and
    punctuation are left out.
    """
    in_query, in_title = _places(query, segmenter), _places(title, segmenter)
    return {
        term: Shared(places, in_title[term])
        for term, places in in_query.items()
        if term in in_title and is_content_word(term)
    }


def _places(text: str, segmenter: Segmenter) -> dict[str, list[Span]]:
    places: dict[str, list[Span]] = {}
    for start, end in segmenter.spans(text):
        places.setdefault(text[start:end].casefold(), []).append((start, end))
    return places
