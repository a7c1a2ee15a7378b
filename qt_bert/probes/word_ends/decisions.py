"""Decisions: for every two neighbouring Chinese characters of a text, does a word end between them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from qt_bert.evaluation.arrays import BoolArray, IntArray
from qt_bert.pairs import Pair, PairTokenizer
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.probes.common.characters import QUERY, TITLE, characters_of, is_han

Ends = Callable[[str], set[int]]
"""A reference: a text → the places (numbers of the characters behind) at which a word ends."""


class Asked(NamedTuple):
    """A text that is one side of a pair, and the query it is resampled with."""

    text: str
    pair: tuple[str, str]
    side: int
    query: str


def asked_of(pairs: Iterable[Pair], without: Iterable[str] = ()) -> list[Asked]:
    """Each distinct text of `pairs` once, where it first stands; none of `without`."""
    found: dict[str, Asked] = {}
    left_out = set(without)
    for pair in pairs:
        texts = (pair.query, pair.title)
        for side in (QUERY, TITLE):
            if texts[side] not in left_out:
                found.setdefault(texts[side], Asked(texts[side], texts, side, pair.query))
    return list(found.values())


@dataclass(frozen=True, eq=False)
class Decisions:
    """D decisions, text by text in order, the texts of a query together.

    `pairs` are what a model reads. Of each decision: `pair` its row there, `side` its side, `token`
    that of the left character (the right one's is the next), `place` the left character's place in
    its text, `text` and `query` which it belongs to (numbers from 0 without gaps). `places` counts
    neighbouring Chinese characters of all texts asked, `covered` those that are decisions, and
    `short` the texts left out for having too few of them.
    """

    asked: tuple[Asked, ...]
    pairs: list[tuple[str, str]]
    pair: IntArray
    side: IntArray
    token: IntArray
    place: IntArray
    text: IntArray
    query: IntArray
    places: int
    covered: int
    short: int

    def __len__(self) -> int:
        return len(self.place)

    @property
    def n_queries(self) -> int:
        """Q."""
        return int(self.query[-1]) + 1 if len(self) else 0

    @property
    def coverage(self) -> float:
        """The share of neighbouring Chinese characters, of all texts asked, that are decisions.

        Those of texts left out as short count, too; 1 where there are none.
        """
        return self.covered / self.places if self.places else 1.0

    @cached_property
    def query_starts(self) -> IntArray:
        """The first decision of each query [Q]."""
        return _starts(self.query)

    @cached_property
    def text_starts(self) -> IntArray:
        """The first decision of each text."""
        return _starts(self.text)

    @cached_property
    def text_sizes(self) -> IntArray:
        """How many decisions each text has."""
        return np.diff(np.append(self.text_starts, len(self)))

    @cached_property
    def run_starts(self) -> BoolArray:
        """Where a run of neighbouring characters begins [D]."""
        apart = (np.diff(self.text) != 0) | (np.diff(self.place) != 1)
        return np.concatenate([np.ones(min(1, len(self)), bool), apart])

    def of_long_texts(self, least: int) -> BoolArray:
        """Whether a decision's text has at least `least` decisions [D]."""
        return np.asarray(np.repeat(self.text_sizes >= least, self.text_sizes))

    def characters(self) -> list[str]:
        """The left character of each decision."""
        texts = [one.text for one in self.asked]
        return [texts[t][p] for t, p in zip(self.text, self.place, strict=True)]

    def labels(self, ends: Ends) -> BoolArray:
        """Whether a word ends at each decision, by a reference [D]."""
        found = [ends(one.text) for one in self.asked]
        listed = [p + 1 in found[t] for t, p in zip(self.text, self.place, strict=True)]
        return np.array(listed, bool)


def decisions_of(tokenizer: PairTokenizer, asked: Sequence[Asked], *, least: int = 1) -> Decisions:
    """The decisions of the texts `asked`; texts with fewer than `least` are left out.

    Two characters make one where each is a token of its own and the tokens are neighbours, too.
    """
    pairs = list(dict.fromkeys(one.pair for one in asked))
    rows = {pair: row for row, pair in enumerate(pairs)}
    encoded = tokenizer.encode(pairs)
    numbers: dict[str, int] = {}
    kept: list[Asked] = []
    columns: list[tuple[int, int, int, int, int, int]] = []
    covered = short = 0
    for one in _together(asked):
        row = rows[one.pair]
        found = _places(encoded[row], one)
        covered += len(found)
        if len(found) < least:
            short += len(found) > 0
            continue
        number = numbers.setdefault(one.query, len(numbers))
        columns += [(row, one.side, *at, len(kept), number) for at in found]
        kept.append(one)
    numbered = np.array(columns, np.int64).reshape(-1, 6)
    pair, side, token, place, text, query = numbered.T
    neighbours = sum(_neighbours(one.text) for one in asked)
    return Decisions(
        tuple(kept),
        pairs,
        pair,
        side,
        token,
        place,
        text,
        query,
        places=neighbours,
        covered=covered,
        short=short,
    )


def _places(encoded: EncodedPair, one: Asked) -> list[tuple[int, int]]:
    """Token and place of each left character."""
    return [
        (left.token, left.place)
        for left, right in pairwise(characters_of(encoded, *one.pair, one.side))
        if right.place == left.place + 1 and right.token == left.token + 1
    ]


def _together(asked: Sequence[Asked]) -> list[Asked]:
    """In order, but the texts of a query one after the other."""
    first: dict[str, int] = {}
    for one in asked:
        first.setdefault(one.query, len(first))
    return sorted(asked, key=lambda one: first[one.query])


def _neighbours(text: str) -> int:
    return sum(is_han(left) and is_han(right) for left, right in pairwise(text))


def _starts(numbers: IntArray) -> IntArray:
    return np.flatnonzero(np.diff(numbers, prepend=-1))
