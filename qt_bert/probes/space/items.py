"""What is drawn: some words of the texts with part of speech and text, and [CLS] with the grade."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Tagger
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair, PairTokenizer
from qt_bert.probes.layers_reading import Places
from qt_bert.probes.streams import is_punctuation
from qt_bert.stats.arrays import IntArray

WORDS_A_PAIR = 3
LEAST_ITEMS = 3
"""Of a class: fewer say nothing of how near they lie to each other."""

PARTS_OF_SPEECH = {
    "n": "noun",
    "v": "verb",
    "a": "adjective",
    "d": "adverb",
    "r": "pronoun",
    "m": "number",
}
"""By the first letter of jieba's tag; other words are not drawn."""

SIDES = {QUERY: "query", TITLE: "title"}


@dataclass(frozen=True, eq=False)
class Labelling:
    """Items of one kind with a class each: `rows` [n] of the vectors, `labels` [n] in `classes`.

    `texts` is what an item reads as, and `queries` [n] numbers what it is resampled with.
    """

    name: str
    rows: IntArray
    labels: IntArray
    classes: tuple[str, ...]
    texts: tuple[str, ...]
    queries: IntArray


@dataclass(frozen=True, eq=False)
class Items:
    """Where vectors are read, and how the items are labelled; a labelling of one class is left out."""

    places: Places
    labellings: dict[str, Labelling]
    pairs: int


@dataclass(frozen=True)
class _Item:
    """One thing to draw: the tokens [start, end) of a pair, and its class by each labelling."""

    pair: int
    span: tuple[int, int]
    text: str
    classes: dict[str, str]


def items_of(pairs: Sequence[Pair], tokenizer: PairTokenizer, tag: Tagger, seed: int) -> Items:
    """Up to WORDS_A_PAIR words of each pair, each form once over all, and every pair's [CLS].

    Words are drawn by `seed`; one is drawn only where its tokens are all there and its own.
    """
    encoded = tokenizer.encode([(pair.query, pair.title) for pair in pairs])
    rng, seen = np.random.default_rng(seed), set[str]()
    found: list[_Item] = []
    for number, (pair, one) in enumerate(zip(pairs, encoded, strict=True)):
        found.append(_Item(number, (one.cls, one.cls + 1), pair.query, _graded(pair)))
        words = _words(number, pair, one, tag)
        drawn = [words[place] for place in rng.permutation(len(words))]
        fresh = [word for word in _once(drawn) if word.text not in seen][:WORDS_A_PAIR]
        seen.update(word.text for word in fresh)
        found += fresh
    numbers: dict[str, int] = {}
    queries = np.array([numbers.setdefault(pair.query, len(numbers)) for pair in pairs], np.int64)
    texts = np.array([item.pair for item in found], np.int64)
    places = Places(
        "text",
        tuple((pair.query, pair.title) for pair in pairs),
        texts,
        np.array([[item.span] for item in found], np.int64).reshape(-1, 1, 2),
        queries,
    )
    named = (_labelling(name, found, queries[texts]) for name in ("speech", "side", "grade"))
    return Items(places, {one.name: one for one in named if one is not None}, len(pairs))


def _once(words: Sequence[_Item]) -> list[_Item]:
    return list({word.text: word for word in reversed(words)}.values())[::-1]


def _graded(pair: Pair) -> dict[str, str]:
    return {} if pair.grades is None else {"grade": "–".join(map(str, sorted(pair.grades)))}


def _words(number: int, pair: Pair, encoded: EncodedPair, tag: Tagger) -> list[_Item]:
    """The words of a pair with a part of speech that is drawn."""
    found = []
    for side, text in ((QUERY, pair.query), (TITLE, pair.title)):
        tokens = _tokens_at(encoded, side)
        for (start, end), of in tag(text):
            speech = PARTS_OF_SPEECH.get(of[:1])
            span = _span(tokens, start, end, encoded)
            if speech and span and not any(map(is_punctuation, text[start:end])):
                classes = {"speech": speech, "side": SIDES[side]}
                found.append(_Item(number, span, text[start:end], classes))
    return found


def _tokens_at(encoded: EncodedPair, side: int) -> dict[int, int]:
    """The token in which each character of one side stands, the last where several share it."""
    return {
        place: token
        for token, (owner, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True))
        if owner == side != SPECIAL
        for place in range(start, end)
    }


def _span(
    tokens: dict[int, int], start: int, end: int, encoded: EncodedPair
) -> tuple[int, int] | None:
    """The tokens of a word, where it is whole and shares none with its neighbours."""
    own = [tokens[place] for place in range(start, end) if place in tokens]
    if len(own) < end - start or not own:
        return None
    first, last = min(own), max(own)
    whole = encoded.spans[first][0] >= start and encoded.spans[last][1] <= end
    return (first, last + 1) if whole else None


def _labelling(name: str, items: Sequence[_Item], queries: IntArray) -> Labelling | None:
    """The items that have a class by `name`, but for classes with too few; None for fewer than two."""
    sizes = Counter(item.classes[name] for item in items if name in item.classes)
    order = {"speech": list(PARTS_OF_SPEECH.values()), "side": list(SIDES.values())}
    classes = [one for one in order.get(name, sorted(sizes)) if sizes[one] >= LEAST_ITEMS]
    if len(classes) < 2:
        return None
    rows = np.array([row for row, i in enumerate(items) if i.classes.get(name) in classes])
    labels = np.array([classes.index(items[row].classes[name]) for row in rows])
    texts = tuple(items[row].text for row in rows)
    return Labelling(name, rows, labels, tuple(classes), texts, queries[rows])
