import hashlib

import pytest

from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.data.splits import half_of, sample_queries, split_halves, spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.text import query_key
from tests.conftest import pair_of


def pair(query: str, grades: GradeSet | None = (3,)) -> Pair:
    return Pair(query, "标题", grades, "1", 1, None, {})


# SHA-256("a") = ca97 8112…, SHA-256("d") = 18ac 3e73…: second bytes 0x97 (odd) and 0xac (even).
@pytest.mark.parametrize(("query", "half"), [("a", "validation"), ("d", "discovery")])
def test_the_second_byte_decides(query, half):
    assert hashlib.sha256(query.encode()).hexdigest()[:4] in ("ca97", "18ac")
    assert half_of(query) == half


def test_halves_keep_order_and_queries_together():
    pairs = [pair("a"), pair("d"), pair("a", None)]
    assert split_halves(pairs) == ([pairs[1]], [pairs[0], pairs[2]])
    spelled = [pair("d"), pair("Ｄ"), pair("a")]  # another spelling is no other query
    assert half_of("Ｄ") == "validation" and split_halves(spelled) == (spelled[:2], spelled[2:])


@pytest.mark.parametrize(
    ("pairs", "half"),
    [([], "discovery"), ([pair("a")], "discovery"), ([pair("d"), pair("a", None)], "validation")],
)
def test_a_half_without_a_graded_pair_is_refused(pairs, half):
    with pytest.raises(PairFileError, match=f"the {half} half"):
        split_halves(pairs)


SIZES = {"狗": 3, "猫": 1, "高铁": 4, "苹果": 2, "京东": 2}
PAIRS = [
    Pair(query, f"{query}{number}", None, f"{query}-{number}", 1, None, {})
    for number in range(4)
    for query, size in SIZES.items()
    if number < size
]


def test_queries_stay_whole_and_rows_in_order():
    drawn = sample_queries(PAIRS, 4, seed=3)
    order = sorted(SIZES, key=lambda query: hashlib.sha256(f"3\0{query}".encode()).digest())
    expected, count = set(), 0
    for query in order:
        if count < 4:
            expected.add(query)
            count += SIZES[query]
    assert drawn == [pair for pair in PAIRS if pair.query in expected]
    assert 4 <= len(drawn) < 4 + max(SIZES.values())


def test_a_larger_sample_holds_the_smaller_whatever_the_order_of_the_file():
    samples = [{p.id for p in sample_queries(PAIRS, n, seed=1)} for n in range(1, len(PAIRS) + 1)]
    assert all(small <= large for small, large in zip(samples, samples[1:], strict=False))
    assert {p.id for p in sample_queries(PAIRS[::-1], 5, seed=1)} == samples[4]


def test_spellings_of_a_query_stay_together():
    rows = [(f"{query}1", title) for title in "xy" for query in ("ab", "AB", "ａ b", "cd", "ef")]
    pairs = [pair_of(query, title) for query, title in rows]
    for seed in range(8):
        sizes = {len(sample_queries(pairs, limit, seed)) for limit in range(1, 11)}
        assert sizes <= {2, 4, 6, 8, 10} and len(sizes) == 3
        drawn = spread_over_queries(pairs, 3, seed)
        assert {query_key(pair.query) for pair in drawn} == {"ab1", "cd1", "ef1"}


@pytest.mark.parametrize("limit", [0, -3])
def test_no_pair_is_no_sample(limit):
    with pytest.raises(ArgumentError, match=f"--limit {limit}"):
        sample_queries(PAIRS, limit)
