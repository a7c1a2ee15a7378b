"""Cells of a pair's attention matrix: where a row looks at its own term in the other text, and where not.

A *kind* says what counts as one's own: a token with the same character, the tokens of the same whole word or
of a synonym. For each kind and direction, cells of the other text are `own` or `other`; a causal model has one
direction, for no query sees its title. The control is the same cells under a query that shares no character
with the title (`Replacements`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.probes.streams import is_content, is_han, shared_terms, tokens_within
from qt_bert.shipped import shipped
from qt_bert.stats.arrays import FloatArray

CHARACTERS, TERMS, SYNONYMS = range(3)
KINDS = ("characters", "terms", "synonyms")
TITLE_TO_QUERY, QUERY_TO_TITLE = range(2)
DIRECTIONS = ("title_to_query", "query_to_title")
"""Rows are tokens of the first text, columns those of the second."""
OWN, OTHER = range(2)

Row = tuple[int, set[int]]
"""A row's token, and the tokens of the other text that are its own."""
Places = tuple[Sequence[Span], Sequence[Span]]
"""Where something stands in the first text, and where in the second."""

ALIGNMENTS = "pairs/alignments.tsv"
SPLITS = ("pairs/train.tsv", "pairs/dev.tsv", "pairs/test.tsv")

DRAWS = 3
"""Queries that stand in for a pair's own, at most."""


class Aligned(NamedTuple):
    """Characters [start, end) of the query and of the title with one meaning."""

    q_start: int
    q_end: int
    t_start: int
    t_end: int


@cache
def alignments() -> Mapping[tuple[str, str], tuple[Aligned, ...]]:
    """(query, title) → its aligned spans, of every pair that ships and has some.

    Pairs are known by their texts, so that ids of another file cannot be mistaken for ours.
    """
    by_id: dict[str, list[Aligned]] = {}
    lines = shipped(ALIGNMENTS).read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        id, _, *places = line.split("\t")
        by_id.setdefault(id, []).append(Aligned(*map(int, places)))
    return {
        (pair.query, pair.title): tuple(by_id[pair.id])
        for split in SPLITS
        for pair in ReaderOptions().open(shipped(split))
        if pair.id in by_id
    }


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one pair: `channel`, `row` and `column` [n] of each.

    A channel is a kind, a direction, and own or other (`channel_of`); a column or row is a token.
    """

    channel: npt.NDArray[np.int16]
    row: npt.NDArray[np.int16]
    column: npt.NDArray[np.int16]

    @property
    def counts(self) -> FloatArray:
        """How many cells each channel has [kinds, directions, 2]."""
        found = np.bincount(self.channel, minlength=len(KINDS) * 4)
        return found.astype(np.float64).reshape(len(KINDS), 2, 2)

    @property
    def rows(self) -> FloatArray:
        """How many rows each kind has in each direction [kinds, directions]."""
        places = np.unique(np.stack([self.channel // 2, self.row]), axis=1)
        found = np.bincount(places[0], minlength=len(KINDS) * 2)
        return found.astype(np.float64).reshape(len(KINDS), 2)

    @property
    def speak(self) -> bool:
        """Whether some kind has both own and other cells in some direction."""
        return bool((self.counts > 0).all(axis=-1).any())


def channel_of(kind: int, direction: int, part: int) -> int:
    """The number of a channel: kinds, then directions, then own and other."""
    return (kind * 2 + direction) * 2 + part


def cells_of(
    encoded: EncodedPair,
    query: str,
    title: str,
    segmenter: Segmenter,
    aligned: Iterable[Aligned],
    *,
    causal: bool = False,
) -> Cells:
    """The cells of a pair encoded with offsets. `aligned` are its spans of one meaning."""
    characters = [_characters(encoded, text, side) for side, text in enumerate((query, title))]
    terms: list[Places] = list(shared_terms(query, title, segmenter).values())
    spans: list[Places] = [([(a.q_start, a.q_end)], [(a.t_start, a.t_end)]) for a in aligned]
    found: list[tuple[int, int, int]] = []
    ways = ((TITLE, QUERY),) if causal else ((TITLE, QUERY), (QUERY, TITLE))
    for direction, (of, to) in enumerate(ways):
        whole = set(tokens_within(encoded, to, (0, len((query, title)[to]))))
        kinds: list[tuple[int, Iterable[Row], set[int]]] = [
            (CHARACTERS, _same(characters[of], characters[to]), set(characters[to])),
            (TERMS, _same_places(terms, encoded, of, to), whole),
            (SYNONYMS, _same_places(spans, encoded, of, to), whole),
        ]
        for kind, rows, columns in kinds:
            for row, own in rows:
                found += [(channel_of(kind, direction, OWN), row, at) for at in own]
                found += [(channel_of(kind, direction, OTHER), row, at) for at in columns - own]
    table = np.array(found, np.int16).reshape(-1, 3)  # many pairs' cells are held at a time
    return Cells(table[:, 0], table[:, 1], table[:, 2])


def _characters(encoded: EncodedPair, text: str, side: int) -> dict[int, set[str]]:
    """The characters that each token of `text` holds, whole or cut, case folded.

    Of a token of several they are the Chinese ones: a letter of a word says nothing of it.
    """
    found = {}
    for token in tokens_within(encoded, side, (0, len(text))):
        held = text[slice(*encoded.spans[token])]
        if len(held) == 1 or any(map(is_han, held)):
            found[token] = {one.casefold() for one in held if len(held) == 1 or is_han(one)}
    return found


def _same(of: Mapping[int, set[str]], to: Mapping[int, set[str]]) -> Iterable[Row]:
    """Rows with a content character that occurs in the other text, with the tokens that hold it there."""
    places: dict[str, set[int]] = {}
    for token, held in to.items():
        for one in held:
            places.setdefault(one, set()).add(token)
    for token, held in of.items():
        if own := {at for one in held if is_content(one) for at in places.get(one, ())}:
            yield token, own


def _same_places(places: Iterable[Places], encoded: EncodedPair, of: int, to: int) -> Iterable[Row]:
    """The tokens of what stands in both texts, each with all the tokens of the same there."""
    found: dict[int, set[int]] = {}
    for both in places:
        rows, own = (
            {token for span in both[side] for token in tokens_within(encoded, side, span)}
            for side in (of, to)
        )
        for row in rows if own else ():
            found.setdefault(row, set()).update(own)
    return found.items()


class Replacements:
    """Draws queries that could stand in for one: `queries` are all there are to draw from."""

    def __init__(self, tokenizer: PairTokenizer, queries: Iterable[str]) -> None:
        distinct = sorted(set(queries))
        self._by_length: dict[int, list[tuple[str, frozenset[str]]]] = {}
        for query, encoded in zip(
            distinct, tokenizer.encode([(query, "") for query in distinct]), strict=True
        ):
            self._by_length.setdefault(query_tokens(encoded), []).append((query, _letters(query)))

    def draw(self, title: str, length: int, draws: int, seed: Sequence[int]) -> list[str]:
        """Up to `draws` different queries of `length` tokens that share no character with `title`."""
        pool, taken = self._by_length.get(length, []), _letters(title)
        found: list[str] = []
        for place in np.random.default_rng(list(seed)).permutation(len(pool)):
            query, letters = pool[place]
            if letters.isdisjoint(taken):
                found.append(query)
            if len(found) == draws:
                break
        return found


def query_tokens(encoded: EncodedPair) -> int:
    """How many tokens the query has."""
    return encoded.side.count(QUERY)


def _letters(text: str) -> frozenset[str]:
    return frozenset("".join(text.casefold().split()))
