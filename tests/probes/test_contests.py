"""What contests rest on: points of a label set, few pairs a query, random sets, an early end."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.heads import Head, Shape
from qt_bert.models.card import ModelLabels
from qt_bert.probes import contests
from qt_bert.stats.estimate import over_queries
from tests.conftest import FIVE


def pair(number: int, grades: tuple[int, ...], query: str = "q") -> Pair:
    return Pair(query, f"t{number}", grades, str(number), number, None, {})


def test_points_of_five_logits_are_the_share_of_the_label_set():
    logits = np.log([[0.1, 0.2, 0.3, 0.3, 0.1], [0.5, 0.1, 0.1, 0.1, 0.2]])
    pairs = [pair(1, (4,)), pair(2, (1, 2, 3))]
    assert contests.label_points(logits, pairs, FIVE) == pytest.approx([30, 70])
    both = np.stack([logits, logits[::-1]])  # a variant more
    assert contests.label_points(both, pairs, FIVE) == pytest.approx(np.array([[30, 70], [10, 60]]))


@dataclass
class Folder:
    """All that is read of a sweep's folder."""

    logits: np.ndarray

    def row(self, name: str) -> int:
        return ("none", "out").index(name)


def test_points_are_averaged_within_each_label_set_first():
    """20 queries of grade 1 lose all, 40 of grade 5 nothing; 5 of grade 3 are left out."""
    pairs = [pair(n, (1,), f"a{n}") for n in range(20)] + [
        pair(n, (5,), f"b{n}") for n in range(40)
    ]
    pairs += [pair(n, (3,), f"c{n}") for n in range(5)]
    sure = np.full((65, 5), -50.0)
    sure[np.arange(65), [known.grades[0] - 1 for known in pairs]] = 50
    run = contests.Ablated(
        Folder(np.stack([sure, np.where(np.arange(65)[:, None] < 20, -sure, sure)])), pairs, FIVE
    )
    loss = run.loss("out")
    assert (loss.value, loss.n_queries) == (pytest.approx(50), 60)
    assert contests.classes_settings(pairs, FIVE) == {"judged": ["1", "5"], "left_out": ["3"]}
    of_levels = contests.classes_settings(pairs, ModelLabels(5, None))  # 0 to 4 in the file
    assert of_levels == {"judged": ["0", "4"], "left_out": ["2"]}


def test_one_logit_is_judged_by_the_order_of_unlike_titles():
    """Of a, two of three pairs are ordered right, then all; of b a tie counts half; c has one label."""
    pairs = [pair(1, (5,), "a"), pair(2, (3,), "a"), pair(3, (1,), "a")]
    pairs += [pair(4, (5,), "b"), pair(5, (1,), "b"), pair(6, (2,), "c"), pair(7, (2,), "c")]
    scores = [[3, 5, 1, 2, 2, 0, 1], [9, 8, 7, 0, 1, 0, 1]]
    run = contests.Ablated(Folder(np.array(scores, float)[..., None]), pairs, ModelLabels(1, None))
    assert run.ordered("none").values == pytest.approx([200 / 3, 50])
    assert run.loss("out").values == pytest.approx([200 / 3 - 100, 50])
    shifted = contests.Ablated(
        Folder(np.array([scores[0], np.add(scores[0], 9)])[..., None]), pairs, run.labels
    )
    assert not shifted.loss("out").values.any()
    assert run.accuracy("none") is None


@pytest.mark.parametrize(("queries", "few"), [(100, 1), (30, 4)])
def test_a_quick_contest_takes_few_pairs_but_keeps_every_label_set(queries, few):
    """With one pair a query 30 queries leave fewer than 20 of each grade."""
    pairs = [pair(10 * n + k, (1 + k,), f"q{n}") for n in range(queries) for k in range(4)]
    context = context_of(Shape(2, 2))
    chosen = contests.contest_pairs(context, pairs)
    most = max(Counter(one.query for one in chosen).values())
    assert (most == few) if queries == 100 else (most <= few)
    assert contests.classes_settings(chosen, FIVE) == contests.classes_settings(pairs, FIVE)
    three = contests.contest_pairs(context_of(Shape(2, 2), ModelLabels(1, None)), pairs)
    assert len(three) == 3 * queries == len({(one.query, one.grades) for one in three})
    assert contests.contest_pairs(context_of(Shape(2, 2), full=True), pairs) == pairs


def test_one_pair_of_each_query_can_keep_every_label_set():
    """120 queries with a title of each grade: 24 of each; titles of rarer labels come last."""
    pairs = [pair(10 * n + k, (1 + k,), f"q{n}") for n in range(120) for k in range(5)]
    rare = [pair(5_000 + n, (1, 2), f"q{n}") for n in range(9)]
    few = contests.quick_pairs([*pairs, *rare], FIVE)
    assert Counter(one.grades for one in few) == {(1 + k,): 24 for k in range(5)}
    assert len({one.query for one in few}) == 120
    two = contests.quick_pairs(pairs, FIVE, 2)
    assert Counter(one.grades for one in two) == {(1 + k,): 48 for k in range(5)}


def test_at_most_so_many_pairs_of_a_query_in_file_order():
    pairs = [pair(number, (1,), query=f"q{number % 3}") for number in range(12)]
    few = contests.few_a_query(pairs)
    assert Counter(one.query for one in few) == {"q0": 2, "q1": 2, "q2": 2}
    assert [one.line for one in few] == sorted(one.line for one in few)
    backwards = contests.few_a_query(pairs[::-1])
    assert {one.title for one in backwards} == {one.title for one in few}  # whatever the order
    assert contests.few_a_query(pairs, most=9) == pairs


def sets_of(heads: list[Head], shape: Shape, named: tuple[Head, ...] = ()) -> Any:
    return contests.random_sets(
        heads, shape, named=named, ablated=contests.zeroed, name="x", seed=0
    )


def heads_in(variant: Any) -> tuple[Head, ...]:
    (part,) = variant.parts
    return tuple(part.heads)


def test_random_sets_are_layer_matched_and_outside_every_named_head():
    heads, named = [Head(0, 0), Head(1, 3), Head(1, 4)], (Head(0, 1), Head(1, 5))
    drawn, enumerated = sets_of(heads, Shape(3, 12), named)
    assert len(drawn) == contests.SETS and not enumerated
    for variant in drawn:
        taken = heads_in(variant)
        assert Counter(one.layer for one in taken) == {0: 1, 1: 2}
        assert not set(taken) & {*heads, *named}
    assert len({frozenset(heads_in(one)) for one in drawn}) == contests.SETS
    assert len({one.name for one in drawn}) == contests.SETS


def test_where_fewer_sets_exist_all_or_none_are_taken():
    drawn, enumerated = sets_of([Head(0, 0), Head(1, 0)], Shape(2, 5), (Head(0, 1),))
    assert (len(drawn), enumerated) == (3 * 4, True)
    assert sets_of([Head(0, 0), Head(0, 1)], Shape(2, 4), (Head(0, 2),)) == ([], True)
    assert sets_of([], Shape(2, 4)) == ([], True)


def test_a_single_head_is_compared_with_its_own_and_both_neighbouring_layers():
    drawn, enumerated = sets_of([Head(2, 1)], Shape(5, 4), (Head(1, 0), Head(2, 3)))
    assert enumerated
    found = {heads_in(one) for one in drawn}
    expected = {
        (Head(layer, head),)
        for layer in (1, 2, 3)
        for head in range(4)
        if (layer, head) not in {(2, 1), (1, 0), (2, 3)}
    }
    assert found == expected
    assert len(sets_of([Head(0, 0)], Shape(5, 4))[0]) == 7  # the lowest layer has one neighbour
    # A contest may stop after the first CHUNK of them: they are no layer's own.
    first = sets_of([Head(1, 1)], Shape(3, 12))[0][: contests.CHUNK]
    assert {head.layer for variant in first for head in heads_in(variant)} == {0, 1, 2}


def context_of(shape: Shape, labels: ModelLabels = FIVE, *, full: bool = False) -> Any:
    """What a contest reads of a context."""
    checkpoint = SimpleNamespace(shape=shape, settings=SimpleNamespace(labels=labels))
    return SimpleNamespace(
        model=SimpleNamespace(checkpoint=checkpoint),
        seed=0,
        resamples=200,
        full=full,
        choose=lambda quick, most: most if full else quick,
    )


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """The variants that a contest ran, in order; nothing is computed."""
    names: list[str] = []

    def ablate(context, name, variants, pairs):
        names.extend(one.name for one in variants)
        return name

    monkeypatch.setattr(contests, "ablate", ablate)
    monkeypatch.setattr(contests, "resampled", lambda *_: [])
    return names


def contest_of(losses: Sequence[float], claim: str | None = None) -> contests.Contest:
    """A contest of two heads, without which each query loses so much; without random heads, 2."""
    queries = [f"q{number}" for number in range(len(losses))]
    result, _ = contests.contest(
        context_of(Shape(4, 12)),
        "x",
        [Head(1, 1), Head(2, 2)],
        pairs=[pair(number, (1,), query) for number, query in enumerate(queries)],
        statistic=lambda _, name: over_queries(
            losses if name == "x" else [2.0] * len(queries), queries
        ),
        claim=claim,
    )
    assert result is not None
    return result


def test_a_contest_stops_once_ten_sets_do_as_much(ran):
    found = contest_of([1.0] * 3)
    assert len(found.sets) == contests.CHUNK and not found.enumerated
    assert len(ran) == 1 + contests.CHUNK


def test_a_contest_that_is_won_runs_every_set(ran):
    found = contest_of([5.0] * 3)
    assert len(found.sets) == contests.QUICK_SETS and len(ran) == 1 + contests.QUICK_SETS
    assert found.beyond.value == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("target", "sets"),
    [
        ((4.0, 5.0, 6.0), contests.QUICK_SETS),
        ((3.0, 4.0, 5.0), contests.CHUNK),
        ((2.1, 2.2, 2.3), contests.CHUNK),
    ],
)
def test_a_contest_goes_on_only_where_its_rank_decides_the_claim(ran, target, sets):
    """The first lies 3 points beyond the mean set, the claim asks for 2."""
    assert len(contest_of(target * 10, "matching.five").sets) == sets


def test_without_a_set_to_compare_with_there_is_no_contest(ran):
    shape = Shape(2, 2)
    found, target = contests.contest(
        context_of(shape),
        "x",
        [Head(0, 0)],
        named=shape.all_heads,
        pairs=[pair(1, (1,))],
        statistic=lambda _, name: over_queries([1.0], ["a"]),
    )
    assert (found, target, ran) == (None, "x", ["x"])


def test_a_contest_below_counts_sets_that_lie_as_low(ran, monkeypatch):
    declared = {"side": "below", "margin": 0.0}
    monkeypatch.setattr(contests, "_declared", lambda claim: declared)
    assert len(contest_of([-1.0, -1.2, -1.1] * 10, "x.y").sets) == contests.QUICK_SETS
    assert len(contest_of([2.0, 2.0, 2.0] * 10, "x.y").sets) == contests.CHUNK


def test_too_few_queries_do_not_make_a_model_grade_nothing():
    def rho(n):
        return over_queries(np.random.default_rng(0).normal(size=n), range(n))

    assert contests.is_no_order(rho(40), 200, 0) and not contests.is_no_order(rho(39), 200, 0)
