"""Cells of a pair's attention matrix: from a row to its own character in the other text, and to the other ones.

For each direction, cells of the other text are `own` (tokens with the same character) or `other`; a causal
model has one direction, as no query sees its title. The control is the same cells under a query that shares
no character with the title (`Replacements`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.probes.streams import is_content, is_han, tokens_within
from qt_bert.stats.arrays import FloatArray

TITLE_TO_QUERY, QUERY_TO_TITLE = range(2)
DIRECTIONS = ("title_to_query", "query_to_title")
"""Rows are tokens of the first text, columns those of the second."""
OWN, OTHER = range(2)

Row = tuple[int, set[int]]
"""A row's token, and its matches in the other text."""

DRAWS = 3
"""The most replacements of a pair's query."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one pair: `channel`, `row` and `column` [n] of each.

    A channel is a direction, and own or other (`channel_of`); rows and columns are tokens.
    """

    channel: npt.NDArray[np.int16]
    row: npt.NDArray[np.int16]
    column: npt.NDArray[np.int16]

    @property
    def counts(self) -> FloatArray:
        """The number of cells of each channel [directions, 2]."""
        return np.bincount(self.channel, minlength=4).astype(np.float64).reshape(2, 2)

    @property
    def rows(self) -> FloatArray:
        """The number of rows of each direction [directions]."""
        direction, _ = np.unique(np.stack([self.channel // 2, self.row]), axis=1)
        return np.bincount(direction, minlength=2).astype(np.float64)

    @property
    def comparable(self) -> bool:
        """Whether any direction has both own and other cells."""
        return bool((self.counts > 0).all(axis=-1).any())


def channel_of(direction: int, part: int) -> int:
    """The number of a channel: directions, then own and other."""
    return direction * 2 + part


def cells_of(encoded: EncodedPair, query: str, title: str, *, causal: bool = False) -> Cells:
    """The cells of a pair encoded with offsets."""
    characters = [_characters(encoded, text, side) for side, text in enumerate((query, title))]
    cells: list[tuple[int, int, int]] = []
    ways = {TITLE_TO_QUERY: (TITLE, QUERY), QUERY_TO_TITLE: (QUERY, TITLE)}
    if causal:
        del ways[QUERY_TO_TITLE]
    for direction, (of, to) in ways.items():
        columns = set(characters[to])
        for row, matched in _same_characters(characters[of], characters[to]):
            cells += [(channel_of(direction, OWN), row, at) for at in matched]
            cells += [(channel_of(direction, OTHER), row, at) for at in columns - matched]
    table = np.array(cells, np.int16).reshape(-1, 3)  # int16: the cells of many pairs are held
    return Cells(table[:, 0], table[:, 1], table[:, 2])


def _characters(encoded: EncodedPair, text: str, side: int) -> dict[int, set[str]]:
    """The case-folded characters of each token; of a token of several, only the Chinese ones."""
    characters = {}
    for token in tokens_within(encoded, side, (0, len(text))):
        part = text[slice(*encoded.spans[token])]
        if len(part) == 1 or any(map(is_han, part)):
            characters[token] = {c.casefold() for c in part if len(part) == 1 or is_han(c)}
    return characters


def _same_characters(of: Mapping[int, set[str]], to: Mapping[int, set[str]]) -> Iterable[Row]:
    """Rows with a content character that occurs in the other text, with its tokens there."""
    tokens: dict[str, set[int]] = {}
    for token, characters in to.items():
        for character in characters:
            tokens.setdefault(character, set()).add(token)
    for token, characters in of.items():
        if matched := {at for c in characters if is_content(c) for at in tokens.get(c, ())}:
            yield token, matched


class Replacements:
    """Draws replacements of a pair's query from `queries`."""

    def __init__(self, tokenizer: PairTokenizer, queries: Iterable[str]) -> None:
        distinct = sorted(set(queries))
        self._by_length: dict[int, list[tuple[str, frozenset[str]]]] = {}
        for query, encoded in zip(
            distinct, tokenizer.encode([(query, "") for query in distinct]), strict=True
        ):
            self._by_length.setdefault(query_tokens(encoded), []).append((query, _letters(query)))

    def draw(self, title: str, length: int, draws: int, seed: Sequence[int]) -> list[str]:
        """Up to `draws` different queries of `length` tokens that share no character with `title`."""
        pool, excluded = self._by_length.get(length, []), _letters(title)
        drawn: list[str] = []
        for place in np.random.default_rng(list(seed)).permutation(len(pool)):
            query, letters = pool[place]
            if letters.isdisjoint(excluded):
                drawn.append(query)
            if len(drawn) == draws:
                break
        return drawn


def query_tokens(encoded: EncodedPair) -> int:
    """The number of the query's tokens."""
    return encoded.side.count(QUERY)


def _letters(text: str) -> frozenset[str]:
    return frozenset("".join(text.casefold().split()))
