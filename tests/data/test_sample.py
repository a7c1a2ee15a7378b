"""Samples of whole queries."""

from __future__ import annotations

import hashlib

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import sample_queries
from qt_bert.errors import ArgumentError

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


def test_another_seed_draws_other_queries():
    assert len({sample_queries(PAIRS, 1, seed=seed)[0].query for seed in range(20)}) > 1


def test_as_many_as_there_are_and_more_are_all():
    assert sample_queries(PAIRS, len(PAIRS)) == sample_queries(PAIRS, 10**9) == PAIRS


@pytest.mark.parametrize("limit", [0, -3])
def test_no_pair_is_no_sample(limit):
    with pytest.raises(ArgumentError, match=f"--limit {limit}"):
        sample_queries(PAIRS, limit)
