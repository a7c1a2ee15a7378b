"""What must hold on any data: brute force agrees, and weights are repeated queries."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qt_bert.stats.judgements import Judgements, judge_scores
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.metrics.ranking import dcg_by_query, ordered_pairs_by_query

TITLES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(titles=TITLES, depth=st.integers(1, 4))
def test_dcg_is_the_mean_over_all_orders_of_ties(titles: list[tuple[int, int]], depth: int) -> None:
    score, gain = (np.array(column, dtype=np.float64) for column in zip(*titles, strict=True))
    found = dcg_by_query(np.zeros(len(titles), dtype=np.int64), 1, score, gain, depth)[0]
    dcgs = []
    for order in permutations(range(len(titles))):
        ranked = sorted(order, key=lambda title: -score[title])
        dcgs.append(sum(gain[t] / np.log2(i + 2) for i, t in enumerate(ranked[:depth])))
    assert found == pytest.approx(np.mean(dcgs))


@settings(max_examples=60, deadline=None)
@given(titles=TITLES, others=TITLES)
def test_ordered_pairs_are_those_counted_one_by_one(
    titles: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    both = titles + others
    judged = judge_scores(
        [float(score) for score, _ in both],
        [(grade,) for _, grade in both],
        ["甲"] * len(titles) + ["乙"] * len(others),
    )
    expected = [[0, 0, 0], [0, 0, 0]]
    for query, group in enumerate((titles, others)):
        for one, two in combinations(group, 2):
            product = (one[0] - two[0]) * (one[1] - two[1])
            if one[1] != two[1]:
                expected[query][2 if one[0] == two[0] else int(product < 0)] += 1
    assert ordered_pairs_by_query(judged).tolist() == expected


def repeated(judged: Judgements, drawn: list[int]) -> Judgements:
    """The pairs of each drawn query written out, every copy a query of its own."""
    rows = [np.flatnonzero(judged.query_index == query) for query in drawn]
    part = judged.subset(np.concatenate(rows))
    copies = np.repeat(np.arange(len(drawn)), [len(one) for one in rows])
    object.__setattr__(part, "query_index", copies)
    object.__setattr__(part, "n_queries", len(drawn))
    return part


@pytest.mark.parametrize("name", METRICS)
def test_weights_are_repeated_queries(
    random_judgements: Callable[..., Judgements], name: str
) -> None:
    judged = random_judgements(7)
    generator = np.random.default_rng(8)
    drawn = generator.integers(judged.n_queries, size=(3, judged.n_queries))
    weights = np.stack([np.bincount(one, minlength=judged.n_queries) for one in drawn])
    found = METRICS[name].estimator(judged)(weights.astype(np.float64))
    literal = [METRICS[name].value(repeated(judged, one.tolist())) for one in drawn]
    assert found.tolist() == pytest.approx(literal, abs=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_the_order_of_the_pairs_does_not_matter(
    random_judgements: Callable[..., Judgements], name: str
) -> None:
    judged = random_judgements(9)
    shuffled = judged.subset(np.random.default_rng(10).permutation(len(judged)))
    assert METRICS[name].value(shuffled) == pytest.approx(METRICS[name].value(judged))
