"""Which heads have a function: tests over queries, least score and weight, stability, heads by function."""

from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape
from qt_bert.probes import naming
from qt_bert.results.probe import ProbeResult
from tests.probes.probe_results import left
from tests.results.made_stability import LOOSE

EVERY = [Head(layer, head) for layer in range(4) for head in range(5)]
SHAPE = Shape(2, 4)


def test_p_is_a_one_sided_t_test_over_queries():
    rng = np.random.default_rng(0)
    excess = rng.normal(0.3, 1.0, size=(30, 2, 2))
    excess[:4, 1, 1] = np.nan
    p = naming.one_sided_p(excess)
    for place in np.ndindex(2, 2):
        values = excess[(slice(None), *place)]
        values = values[np.isfinite(values)]
        assert p[place] == pytest.approx(ttest_1samp(values, 0, alternative="greater").pvalue)


@pytest.mark.parametrize("values", [[], [0.7], [np.nan, np.nan], [0.0, 0.0, 0.0]])
def test_too_few_queries_and_zeros_are_no_test(values):
    assert naming.one_sided_p(np.array(values)) == 1.0


def test_all_three_bars_must_be_passed():
    score = np.array([[3.0, 3.0, 1.9, 3.0]])
    p = np.array([[0.001, 0.001, 0.001, 0.9]])
    weight = np.array([[0.5, 0.04, 0.5, 0.5]])
    named = naming.name_heads(score, p, weight, least=2.0)
    assert named.heads() == [Head(0, 0)]
    assert named.q[0].tolist() == pytest.approx([0.004 / 3] * 3 + [0.9])


def test_of_several_choices_the_smallest_q_counts_and_all_are_tests():
    p = np.array([[[0.02, 0.9], [0.9, 0.9]]])
    named = naming.name_heads(np.full((1, 2), 5.0), p, np.ones((1, 2)), least=2.0)
    assert named.q[0, 0] == pytest.approx(0.08)  # four tests, not two
    assert named.heads() == []


def test_a_head_is_named_by_the_test_of_the_choice_its_score_is_of():
    p = np.array([[[0.001, 0.9], [0.9, 0.001]]])
    choice = np.array([[1, 1]])
    named = naming.name_heads(np.full((1, 2), 5.0), p, np.ones((1, 2)), least=2.0, choice=choice)
    assert named.p.tolist() == [[0.9, 0.001]] and named.q[0, 1] == pytest.approx(0.002)
    assert named.heads() == [Head(0, 1)]


def test_the_best_come_first_and_nan_last():
    score = np.array([[np.nan, 2.0], [3.0, 2.0]])
    assert naming.ranked(score) == [Head(1, 0), Head(0, 1), Head(1, 1), Head(0, 0)]


def test_means_by_query_leave_out_nan():
    values = np.array([[1.0], [3.0], [np.nan], [5.0]])
    assert naming.by_query(values, ["a", "a", "b", "a"])[0, 0] == pytest.approx(3.0)
    assert np.isnan(naming.by_query(values, ["a", "a", "b", "a"])[1, 0])
    assert naming.by_query(np.empty((0, 3)), []).shape == (0, 3)
    silent = np.array([[1.0, np.nan], [3.0, np.nan]])
    np.testing.assert_array_equal(naming.means(silent), [2.0, np.nan])


# How much of a set comes back: by hand, for a planted set, for noise, beside chance.


def chosen_by(per_query: np.ndarray, k: int) -> list[Head]:
    return naming.ranked(naming.by_mean(per_query)(np.ones((1, len(per_query))))[0])[:k]


def test_a_planted_set_is_stable():
    per_query = np.random.default_rng(1).normal(size=(60, 4, 12))
    planted = [Head(2, 3), Head(0, 1), Head(3, 11)]
    for head in planted:
        per_query[:, head.layer, head.head] += 2
    found = naming.stability(naming.by_mean(per_query), planted, 60)
    assert found is not None and found.verdict == "stable"
    assert (found.overlap, found.low, found.high, found.halves) == (1, 1, 1, 1)
    assert (found.k, found.n_queries, found.resamples) == (3, 60, 100)
    assert found.chance_mean == pytest.approx(1 / 12) and found.chance_95 == pytest.approx(1 / 3)


@pytest.mark.parametrize("k", [3, 5, 10, 20])
def test_noise_is_never_stable_however_much_comes_back(k):
    """Chosen on the queries that are resampled, a third to a half of pure noise comes back."""
    rng, back = np.random.default_rng(k), []
    for _ in range(20):
        per_query = rng.normal(size=(60, 12, 12))
        found = naming.stability(naming.by_mean(per_query), chosen_by(per_query, k), 60)
        assert found is not None and found.verdict != "stable"
        assert found.halves is not None and found.halves < 0.25
        back.append(found.overlap)
    assert np.mean(back) > 0.25


def test_resamples_by_hand(monkeypatch):
    """Two queries, each for another head: the head in hand is the best unless the other is drawn twice."""
    per_query = np.array([[[3.0, 0.0]], [[0.0, 1.0]]])
    monkeypatch.setattr(naming, "RESAMPLES", 4000)
    found = naming.stability(naming.by_mean(per_query), [Head(0, 0)], 2)
    assert found is not None
    assert found.overlap == pytest.approx(3 / 4, abs=0.03)
    assert found.halves == 0.0  # the halves are one query each, and never agree
    assert (found.low, found.high) == (0, 1)


def test_no_heads_no_queries_and_a_single_query():
    per_query = np.ones((1, 2, 2))
    assert naming.stability(naming.by_mean(per_query), [], 1) is None
    assert naming.stability(naming.by_mean(per_query[:0]), [Head(0, 0)], 0) is None
    found = naming.stability(naming.by_mean(per_query), [Head(0, 0)], 1)
    assert found is not None and (found.halves, found.verdict) == (None, "undecided")


@pytest.mark.parametrize(
    "chosen", [[Head(0, 0)], [Head(0, 0), Head(0, 3), Head(2, 1)], EVERY[:5], EVERY]
)
def test_chance_is_that_of_every_layer_matched_set(chosen):
    members = set(chosen)
    pools = []
    for layer in range(4):
        size = sum(head.layer == layer for head in members)
        there = [head for head in EVERY if head.layer == layer]
        pools.append(list(combinations(there, size)))
    shared = [len(members.intersection(*[sum(one, ())])) for one in product(*pools)]
    law = np.bincount(shared, minlength=len(members) + 1) / len(shared)
    np.testing.assert_allclose(naming.chance_of(members, EVERY), law, atol=1e-12)


def test_chance_draws_from_the_heads_that_may_be_chosen():
    per_query = np.tile([[[4.0, 3.0, 2.0, np.nan, np.nan]]], (10, 1, 1))
    found = naming.stability(naming.by_mean(per_query), [Head(0, 0)], 10)
    assert found is not None and found.chance_mean == pytest.approx(1 / 3)
    found = naming.stability(
        naming.by_mean(per_query), [Head(0, 0)], 10, pool=[Head(0, h) for h in range(5)]
    )
    assert found is not None and found.chance_mean == pytest.approx(1 / 5)


def test_where_chance_reaches_the_whole_set_there_is_no_verdict():
    per_query = np.zeros((20, 1, 12))
    per_query[:, 0, 3] = 1.0
    found = naming.stability(naming.by_mean(per_query), [Head(0, 3)], 20)
    assert found is not None and (found.overlap, found.halves, found.chance_95) == (1, 1, 1)
    assert found.verdict == "undecided"  # one of twelve: chance draws it in 8 % of draws
    wide = np.zeros((20, 1, 24))
    wide[:, 0, 3] = 1.0
    found = naming.stability(naming.by_mean(wide), [Head(0, 3)], 20)
    assert found is not None and (found.chance_95, found.verdict) == (0, "stable")


def test_elsewhere_the_same_rule_is_applied_once():
    here, there = np.zeros((20, 1, 24)), np.zeros((5, 1, 24))
    here[:, 0, :2] = 1.0
    there[:, 0, 1:3] = 1.0
    beside = [
        naming.Elsewhere(naming.VALIDATION, naming.by_mean(there), 5),
        naming.Elsewhere(naming.VALIDATION, naming.by_mean(there), 0),
    ]
    found = naming.stability(naming.by_mean(here), [Head(0, 0), Head(0, 1)], 20, elsewhere=beside)
    assert found is not None
    assert [(one.overlap, one.n_queries) for one in found.sources] == [(0.5, 5)]


def test_means_of_weighted_queries():
    per_query = np.array([[[1.0, 3.0, np.nan]], [[5.0, np.nan, np.nan]]])
    scores = naming.by_mean(per_query)(np.array([[3.0, 1.0], [0.0, 2.0]]))
    assert scores[0, 0].tolist() == pytest.approx([2, 3, np.nan], nan_ok=True)
    assert scores[1, 0].tolist() == pytest.approx([5, np.nan, np.nan], nan_ok=True)


# Matching heads: named, by option, the best where none is named, none.


def context(heads: str | None = None, *found: ProbeResult) -> Any:
    model = SimpleNamespace(checkpoint=SimpleNamespace(shape=SHAPE))
    results = {one.probe: one for one in found}
    request = SimpleNamespace(heads=heads)
    return SimpleNamespace(model=model, request=request, result_of=results.__getitem__)


def test_without_a_named_head_the_best_are_taken_and_marked():
    matching = left("matching", matching=("L1H2", "L0H1"))
    found = naming.function_heads(context(None, matching))
    assert found.heads == (Head(1, 2), Head(0, 1)) and found.status == "not_named"


def test_an_unstable_set_is_marked_wherever_it_is_shown():
    matching = left("matching", matching=("L1H2", "L0H1"), named=("L1H2", "L0H1"))
    loose = replace(matching, stability={"matching": LOOSE})
    found = naming.function_heads(context(None, loose))
    assert found is not None and found.unstable
    assert found.status == "unstable" and found.below(1).heads == (Head(0, 1),)
    assert replace(found, named=False).status == "not_named"
    stable = replace(loose, stability={"matching": replace(LOOSE, verdict="stable")})
    kept = naming.function_heads(context(None, stable))
    assert kept is not None and kept.status == "named"


def test_heads_of_the_user_count_as_named():
    found = naming.function_heads(context("L1H0 L0H3"))
    assert found == naming.FunctionHeads((Head(0, 3), Head(1, 0)), True, "option")
    with pytest.raises(ArgumentError, match="no head L7H0"):
        naming.function_heads(context("L7H0"))
