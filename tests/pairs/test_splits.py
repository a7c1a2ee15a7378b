from __future__ import annotations

import hashlib

import pytest

from qt_bert.errors import PairFileError
from qt_bert.pairs.grades import GradeSet
from qt_bert.pairs.pair import Pair
from qt_bert.pairs.splits import half_of, split_halves


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
