"""Rules that make no sentence: shuffled, reversed, stuffed with keywords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qt_bert.pairs.shuffles import reverse_characters, shuffle_characters, shuffle_words
from qt_bert.training.rules.rule import Draw, Made, Rule, changed

if TYPE_CHECKING:
    import numpy as np

_FEWEST_CHARACTERS = 6
_FEWEST_WORDS = 6
_GRAMMAR = re.compile("[的了吗是有在被把会能不要给从到]|怎|什么|如何|多少|哪")
_LIST = re.compile(r"[ _|/\-—、]")


def _shuffled_characters(draw: Draw) -> Made | None:
    if len(draw.title) < _FEWEST_CHARACTERS:
        return None
    title = shuffle_characters(draw.title, _generator(draw))
    return changed(draw, title) if title else None


def _shuffled_words(draw: Draw) -> Made | None:
    # A few nouns, or a list of keywords, in another order still say the same.
    is_sentence = _GRAMMAR.search(draw.title) and not _LIST.search(draw.title)
    if not is_sentence or len(draw.segmenter.words(draw.title)) < _FEWEST_WORDS:
        return None
    title = shuffle_words(draw.title, draw.segmenter, _generator(draw))
    return changed(draw, title) if title else None


def _reversed(draw: Draw) -> Made | None:
    title = reverse_characters(draw.title) if len(draw.title) >= _FEWEST_CHARACTERS else None
    return changed(draw, title) if title else None


def _stuffing(draw: Draw) -> Made | None:
    """Some keywords of the query, one of them repeated, among keywords of another text."""
    own = draw.related.content_words(draw.query)
    other = draw.related.unlike(draw.query, draw.rng)
    if len(own) < 2 or other is None:
        return None
    foreign = draw.related.content_words(other)
    words = [*own, draw.rng.choice(own), *draw.rng.sample(foreign, min(3, len(foreign)))]
    draw.rng.shuffle(words)
    return Made(draw.query, draw.rng.choice((" ", "", "_", ",", "，")).join(words))


def _generator(draw: Draw) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(draw.rng.getrandbits(64))


SALAD = (
    Rule(
        "shuffled_characters",
        (1, 2),
        "好标题的字被打乱",
        "the characters of a good title are shuffled",
        _shuffled_characters,
    ),
    Rule(
        "shuffled_words",
        (1, 2),
        "好标题的词被打乱",
        "the words of a good title are shuffled",
        _shuffled_words,
    ),
    Rule(
        "reversed",
        (1, 2),
        "好标题被倒着写",
        "a good title is written backwards",
        _reversed,
    ),
    Rule(
        "stuffing",
        (2, 3),
        "查询的关键词重复堆砌，夹着无关的词",
        "keywords of the query, repeated, among unrelated ones",
        _stuffing,
    ),
)
