"""Split pairs by query into discovery and validation; samples of whole queries."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from typing import Generic, Literal, NamedTuple, TypeVar

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.text import query_key

T = TypeVar("T")


def sample_queries(pairs: Sequence[Pair], limit: int, seed: int = 0) -> list[Pair]:
    """Pairs of whole queries, at least `limit` pairs or all, in file order.

    Queries are drawn in the order of their hash with `seed`, independent of file order; a larger sample
    contains the smaller ones. Raises ArgumentError for a limit below 1.
    """
    if limit < 1:
        raise ArgumentError(f"--limit {limit}: give at least one pair")
    queries = _named(pairs)
    sizes = Counter(queries)
    order = sorted(sizes, key=lambda query: (_hash(query, seed), query))
    before = accumulate((sizes[query] for query in order), initial=0)
    drawn = {query for query, count in zip(order, before, strict=False) if count < limit}
    return [pair for pair, query in zip(pairs, queries, strict=True) if query in drawn]


def spread_over_queries(pairs: Sequence[Pair], limit: int, seed: int = 0) -> list[Pair]:
    """`limit` pairs of as many queries as possible, in file order.

    Tests and intervals count queries, so one pair of each query is drawn before a second of any, in
    the order of their hashes with `seed`. Raises ArgumentError for a limit below 1.
    """
    if limit < 1:
        raise ArgumentError(f"--limit {limit}: give at least one pair")
    queries, turn, turns = _named(pairs), Counter[str](), {}
    for row in sorted(range(len(pairs)), key=lambda row: _hash(pairs[row].title, seed)):
        turns[row] = turn[queries[row]]
        turn[queries[row]] += 1
    order = sorted(turns, key=lambda row: (turns[row], _hash(queries[row], seed), row))
    return [pairs[row] for row in sorted(order[:limit])]


def _named(pairs: Sequence[Pair]) -> list[str]:
    """The query of each pair; of several spellings the least."""
    least: dict[Hashable, str] = {}
    for query in {pair.query for pair in pairs}:
        least[query_key(query)] = min(query, least.get(query_key(query), query))
    return [least[query_key(pair.query)] for pair in pairs]


def _hash(text: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{text}".encode()).digest()


def check_disjoint(chosen_on: Sequence[Pair], of: str, tested: Sequence[Pair], name: str) -> None:
    """Raise ArgumentError for a query that is in both, however it is spelled; `of` and `name` are their files."""
    chosen = {query_key(pair.query) for pair in chosen_on}
    spelled = {query_key(pair.query): pair.query for pair in tested}
    if both := [query for key, query in spelled.items() if key in chosen]:
        raise ArgumentError(
            f"{len(both):,} queries to choose on (of {of}), such as {min(both)!r}, are also in {name}: what is "
            "chosen on a query cannot be tested on it; give other pairs"
        )


Half = Literal["discovery", "validation"]


class Halves(NamedTuple, Generic[T]):
    """The pairs (or sentences) of each half, in file order."""

    discovery: list[T]
    validation: list[T]


def half_of(query: str) -> Half:
    """The half of a query: discovery where the second byte of SHA-256(query in UTF-8) is even."""
    return "validation" if hashlib.sha256(query.encode("utf-8")).digest()[1] % 2 else "discovery"


def halves_of(queries: Iterable[str]) -> list[Half]:
    """The half of each query; one that is spelled in several ways is in the half of its first spelling."""
    halves: dict[Hashable, Half] = {}
    return [halves.setdefault(query_key(query), half_of(query)) for query in queries]


def split_halves(pairs: Sequence[Pair]) -> Halves[Pair]:
    """Split pairs by query. Raises PairFileError where a half has no graded pair."""
    halves = Halves[Pair]([], [])
    for pair, its in zip(pairs, halves_of(pair.query for pair in pairs), strict=True):
        getattr(halves, its).append(pair)
    for name, half in halves._asdict().items():
        if not any(pair.grades for pair in half):
            raise PairFileError(
                f"the {name} half of the queries has no graded pair ({len(half):,} pairs in it); "
                "give a file with graded pairs of more queries"
            )
    return halves
