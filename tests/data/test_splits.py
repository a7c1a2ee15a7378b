from __future__ import annotations

import hashlib

import pytest

from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.data.splits import balanced_halves, half_of, split_halves
from qt_bert.errors import ArgumentError, PairFileError


def pair(query: str, grades: GradeSet | None = (3,)) -> Pair:
    return Pair(query, "标题", grades, "1", 1, None, {})


# SHA-256("a") = ca97 8112…, SHA-256("d") = 18ac 3e73…: second bytes 0x97 (odd) and 0xac (even).
@pytest.mark.parametrize(("query", "half"), [("a", "validation"), ("d", "discovery")])
def test_the_second_byte_decides(query: str, half: str) -> None:
    assert hashlib.sha256(query.encode()).hexdigest()[:4] in ("ca97", "18ac")
    assert half_of(query) == half


def test_halves_keep_order_and_queries_together() -> None:
    pairs = [pair("a"), pair("d"), pair("a", None)]
    assert split_halves(pairs) == ([pairs[1]], [pairs[0], pairs[2]])


@pytest.mark.parametrize(
    ("pairs", "half"),
    [
        ([], "discovery"),
        ([pair("a")], "discovery"),
        ([pair("d"), pair("a", None)], "validation"),
    ],
)
def test_a_half_without_a_graded_pair_is_refused(pairs: list[Pair], half: str) -> None:
    with pytest.raises(PairFileError, match=f"the {half} half"):
        split_halves(pairs)


def test_balanced_halves_have_as_many_queries_whatever_the_order() -> None:
    pairs = [pair(query) for query in "abcdefgh" for _ in range(3)]
    one, other = balanced_halves(pairs)
    assert {len({p.query for p in half}) for half in (one, other)} == {4}
    assert not {p.query for p in one} & {p.query for p in other} and len(one + other) == 24
    assert {p.query for p in balanced_halves(pairs[::-1])[0]} == {p.query for p in one}
    assert [len({p.query for p in half}) for half in balanced_halves(pairs[:15])] == [3, 2]


def test_a_half_of_split_halves_can_be_halved_again() -> None:
    discovery = split_halves(pair(str(n)) for n in range(60)).discovery
    one, other = balanced_halves(discovery)
    assert abs(len(one) - len(other)) <= 1 < min(len(one), len(other))


def test_one_query_cannot_be_halved() -> None:
    with pytest.raises(ArgumentError, match="2 pairs of 1 queries cannot be halved"):
        balanced_halves([pair("a"), pair("a")])
