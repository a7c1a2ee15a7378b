"""Fewer pairs, drawn as whole queries, so that every figure over queries keeps its meaning."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from qt_bert.errors import ArgumentError
from qt_bert.pairs.pair import Pair


def sample_queries(pairs: Sequence[Pair], limit: int, seed: int = 0) -> list[Pair]:
    """Whole queries until `limit` pairs are there, in file order; all pairs where there are no more.

    Queries come in the order of their hash with `seed`: whatever the file's order, a query is drawn
    by its text alone, and a larger sample holds the smaller ones. The last query is taken whole,
    so that a few pairs more than `limit` may come. Raises ArgumentError for a limit below 1.
    """
    if limit < 1:
        raise ArgumentError(f"--limit {limit}: give at least one pair")
    sizes = Counter(pair.query for pair in pairs)
    drawn: set[str] = set()
    count = 0
    for query in sorted(sizes, key=lambda query: (_place(query, seed), query)):
        if count >= limit:
            break
        drawn.add(query)
        count += sizes[query]
    return [pair for pair in pairs if pair.query in drawn]


def spread_over_queries(pairs: Sequence[Pair], limit: int, seed: int = 0) -> list[Pair]:
    """`limit` pairs of as many queries as there can be, in file order.

    One pair of each query comes before a second of any: tests and intervals count queries, so few
    pairs say most when they are of many queries. Queries, and the pairs of each, come in the order
    of their hash with `seed`. Raises ArgumentError for a limit below 1.
    """
    if limit < 1:
        raise ArgumentError(f"--limit {limit}: give at least one pair")
    turn: Counter[str] = Counter()
    turns = {}
    for row in sorted(range(len(pairs)), key=lambda row: _place(pairs[row].title, seed)):
        turns[row] = turn[pairs[row].query]
        turn[pairs[row].query] += 1
    order = sorted(turns, key=lambda row: (turns[row], _place(pairs[row].query, seed), row))
    return [pairs[row] for row in sorted(order[:limit])]


def _place(text: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{text}".encode()).digest()
