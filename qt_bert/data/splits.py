"""Halves and samples of the queries: discovery, validation, fewer pairs drawn as whole queries."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, PairFileError

# Fewer pairs, drawn as whole queries, so that every figure over queries keeps its meaning.


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


# Discovery and validation: heads are chosen on one half of the queries, tested on the other.


Half = Literal["discovery", "validation"]


class Halves(NamedTuple):
    """The pairs of each half, in their order."""

    discovery: list[Pair]
    validation: list[Pair]


def half_of(query: str) -> Half:
    """The half a query belongs to: the second byte of SHA-256(query in UTF-8), even = discovery."""
    return "validation" if hashlib.sha256(query.encode("utf-8")).digest()[1] % 2 else "discovery"


def split_halves(pairs: Iterable[Pair]) -> Halves:
    """Split pairs by query.

    Raises PairFileError where a half has no graded pair, so that nothing could be chosen or tested.
    """
    halves = Halves([], [])
    for pair in pairs:
        getattr(halves, half_of(pair.query)).append(pair)
    for name, half in zip(Halves._fields, halves, strict=True):
        if not any(pair.grades for pair in half):
            raise PairFileError(
                f"the {name} half of the queries has no graded pair ({len(half):,} pairs in it); "
                "give a file with graded pairs of more queries"
            )
    return halves


def balanced_halves(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Two halves of a set of pairs with as many queries each (one more in the first, if odd).

    Queries come in the order of SHA-256(query) from its third byte on and fall to the halves in
    turn, so that a half of `split_halves` can be halved again, whatever the order of its pairs.
    Raises ArgumentError where there are not two queries.
    """
    queries = sorted(
        {pair.query for pair in pairs},
        key=lambda query: (hashlib.sha256(query.encode("utf-8")).digest()[2:], query),
    )
    if len(queries) < 2:
        raise ArgumentError(
            f"{len(pairs)} pairs of {len(queries)} queries cannot be halved by query"
        )
    first = set(queries[::2])
    return (
        [pair for pair in pairs if pair.query in first],
        [pair for pair in pairs if pair.query not in first],
    )
