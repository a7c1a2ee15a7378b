"""Cells of a pair's attention matrix: from a row to its own term in the other text, and to other tokens.

The *kind* of a match: a token with the same character, the tokens of the same whole word, or of a synonym.
For each kind and direction, cells of the other text are `own` (matches) or `other`; a causal model has one
direction, as no query sees its title. The control is the same cells under a query that shares no character
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
"""A row's token, and its matches in the other text."""
TermSpans = tuple[Sequence[Span], Sequence[Span]]
"""The spans of a term in the query, and in the title."""

ALIGNMENTS = "pairs/alignments.tsv"
SPLITS = ("pairs/train.tsv", "pairs/dev.tsv", "pairs/test.tsv")

DRAWS = 3
"""The most replacements of a pair's query."""


class Aligned(NamedTuple):
    """Characters [start, end) of the query and of the title with one meaning."""

    q_start: int
    q_end: int
    t_start: int
    t_end: int


@cache
def alignments() -> Mapping[tuple[str, str], tuple[Aligned, ...]]:
    """(query, title) → its aligned spans, for every shipped pair that has some."""
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

    A channel is a kind, a direction, and own or other (`channel_of`); rows and columns are tokens.
    """

    channel: npt.NDArray[np.int16]
    row: npt.NDArray[np.int16]
    column: npt.NDArray[np.int16]

    @property
    def counts(self) -> FloatArray:
        """The number of cells of each channel [kinds, directions, 2]."""
        cells = np.bincount(self.channel, minlength=len(KINDS) * 4)
        return cells.astype(np.float64).reshape(len(KINDS), 2, 2)

    @property
    def rows(self) -> FloatArray:
        """The number of rows of each kind and direction [kinds, directions]."""
        distinct = np.unique(np.stack([self.channel // 2, self.row]), axis=1)
        rows = np.bincount(distinct[0], minlength=len(KINDS) * 2)
        return rows.astype(np.float64).reshape(len(KINDS), 2)

    @property
    def comparable(self) -> bool:
        """Whether any kind has both own and other cells in any direction."""
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
    """The cells of a pair encoded with offsets; `aligned` are its spans of one meaning."""
    characters = [_characters(encoded, text, side) for side, text in enumerate((query, title))]
    terms: list[TermSpans] = list(shared_terms(query, title, segmenter).values())
    spans: list[TermSpans] = [([(a.q_start, a.q_end)], [(a.t_start, a.t_end)]) for a in aligned]
    cells: list[tuple[int, int, int]] = []
    ways = ((TITLE, QUERY),) if causal else ((TITLE, QUERY), (QUERY, TITLE))
    for direction, (of, to) in enumerate(ways):
        whole = set(tokens_within(encoded, to, (0, len((query, title)[to]))))
        kinds: list[tuple[int, Iterable[Row], set[int]]] = [
            (CHARACTERS, _same_characters(characters[of], characters[to]), set(characters[to])),
            (TERMS, _same_spans(terms, encoded, of, to), whole),
            (SYNONYMS, _same_spans(spans, encoded, of, to), whole),
        ]
        for kind, rows, columns in kinds:
            for row, matched in rows:
                cells += [(channel_of(kind, direction, OWN), row, at) for at in matched]
                cells += [(channel_of(kind, direction, OTHER), row, at) for at in columns - matched]
    table = np.array(cells, np.int16).reshape(-1, 3)  # int16: the cells of many pairs are held
    return Cells(table[:, 0], table[:, 1], table[:, 2])


def _characters(encoded: EncodedPair, text: str, side: int) -> dict[int, set[str]]:
    """The case-folded characters of each token of `text`, whole or cut.

    Only Chinese ones for a token of several characters, as a letter does not identify a word.
    """
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


def _same_spans(
    terms: Iterable[TermSpans], encoded: EncodedPair, of: int, to: int
) -> Iterable[Row]:
    """The tokens of terms in both texts, each with all tokens of the term in the other text."""
    matches: dict[int, set[int]] = {}
    for term in terms:
        rows, matched = (
            {token for span in term[side] for token in tokens_within(encoded, side, span)}
            for side in (of, to)
        )
        for row in rows if matched else ():
            matches.setdefault(row, set()).update(matched)
    return matches.items()


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
