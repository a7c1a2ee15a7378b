"""Discovery and validation: heads are chosen on one half of the queries, tested on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs.pair import Pair

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
