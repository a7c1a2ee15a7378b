"""Queries put in another's place: as long in tokens, and without a character of the title."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from qt_bert.pairs.tokenise import QUERY, EncodedPair, PairTokenizer

DRAWS = 3


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
