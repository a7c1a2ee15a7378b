"""How much of a set comes back: by hand, for a planted set, for noise, beside chance."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from qt_bert.models.heads import Head
from qt_bert.probes.naming import (
    VALIDATION,
    Elsewhere,
    among,
    by_mean,
    chance_of,
    known_stability,
    mask_of,
    ranked,
    stability,
)

EVERY = [Head(layer, head) for layer in range(4) for head in range(5)]


def chosen_by(per_query: np.ndarray, k: int) -> list[Head]:
    return ranked(by_mean(per_query)(np.ones((1, len(per_query))))[0])[:k]


def test_a_planted_set_is_stable() -> None:
    per_query = np.random.default_rng(1).normal(size=(60, 4, 12))
    planted = [Head(2, 3), Head(0, 1), Head(3, 11)]
    for head in planted:
        per_query[:, head.layer, head.head] += 2
    found = stability(by_mean(per_query), planted, 60)
    assert found is not None and found.verdict == "stable"
    assert (found.overlap, found.low, found.high, found.halves) == (1, 1, 1, 1)
    assert (found.k, found.n_queries, found.resamples) == (3, 60, 100)
    assert found.chance_mean == pytest.approx(1 / 12) and found.chance_95 == pytest.approx(1 / 3)


@pytest.mark.parametrize("k", [3, 5, 10, 20])
def test_noise_is_never_stable_however_much_comes_back(k: int) -> None:
    """Chosen on the queries that are resampled, a third to a half of pure noise comes back."""
    rng, back = np.random.default_rng(k), []
    for _ in range(20):
        per_query = rng.normal(size=(60, 12, 12))
        found = stability(by_mean(per_query), chosen_by(per_query, k), 60)
        assert found is not None and found.verdict != "stable"
        assert found.halves is not None and found.halves < 0.25
        back.append(found.overlap)
    assert np.mean(back) > 0.25


def test_resamples_by_hand() -> None:
    """Two queries, each for another head: the head in hand is the best unless the other is drawn twice."""
    per_query = np.array([[[3.0, 0.0]], [[0.0, 1.0]]])
    found = stability(by_mean(per_query), [Head(0, 0)], 2, resamples=4000)
    assert found is not None
    assert found.overlap == pytest.approx(3 / 4, abs=0.03)
    assert found.halves == 0.0  # the halves are one query each, and never agree
    assert (found.low, found.high) == (0, 1)


def test_all_of_the_rule_is_asked_at_once_and_ones_come_first() -> None:
    seen = []

    def rule(weights: np.ndarray) -> np.ndarray:
        seen.append(weights)
        scores = np.tile([[[2.0, 1.0], [np.nan, 3.0]]], (len(weights), 1, 1))
        return scores

    found = stability(rule, [Head(0, 0), Head(1, 1)], 7, resamples=3)
    assert found is not None and (found.overlap, found.halves) == (1.0, 1.0)
    (weights,) = seen
    assert weights.shape == (10, 7) and (weights[0] == 1).all()
    assert (weights[1:4].sum(axis=1) == 7).all()
    assert (weights[4:7] + weights[7:] == 1).all() and (weights[4:7].sum(axis=1) == 3).all()


def test_heads_without_a_score_never_come_back() -> None:
    per_query = np.full((10, 1, 3), np.nan)
    per_query[:, 0, 0] = 1.0
    found = stability(by_mean(per_query), [Head(0, 0), Head(0, 2)], 10)
    assert found is not None and found.overlap == 0.5


def test_no_heads_no_queries_and_a_single_query() -> None:
    per_query = np.ones((1, 2, 2))
    assert stability(by_mean(per_query), [], 1) is None
    assert stability(by_mean(per_query[:0]), [Head(0, 0)], 0) is None
    found = stability(by_mean(per_query), [Head(0, 0)], 1)
    assert found is not None and (found.halves, found.verdict) == (None, "undecided")
    assert known_stability(none=None, one=found) == {"one": found}


def test_the_same_seed_gives_the_same_figures() -> None:
    per_query = np.random.default_rng(0).normal(size=(30, 4, 5))
    chosen = chosen_by(per_query, 4)
    first, again = (stability(by_mean(per_query), chosen, 30, seed=3) for _ in range(2))
    assert first == again != stability(by_mean(per_query), chosen, 30, seed=4)


@pytest.mark.parametrize(
    "chosen", [[Head(0, 0)], [Head(0, 0), Head(0, 3), Head(2, 1)], EVERY[:5], EVERY]
)
def test_chance_is_that_of_every_layer_matched_set(chosen: list[Head]) -> None:
    wanted = set(chosen)
    pools = []
    for layer in range(4):
        size = sum(head.layer == layer for head in wanted)
        there = [head for head in EVERY if head.layer == layer]
        pools.append(list(combinations(there, size)))
    shared = [len(wanted.intersection(*[sum(one, ())])) for one in product(*pools)]
    law = np.bincount(shared, minlength=len(wanted) + 1) / len(shared)
    np.testing.assert_allclose(chance_of(wanted, EVERY), law, atol=1e-12)


def test_chance_is_that_of_random_draws() -> None:
    chosen, rng = {Head(0, 0), Head(0, 1), Head(1, 2), Head(3, 4)}, np.random.default_rng(0)
    shared = []
    for _ in range(4000):
        drawn = [Head(0, int(head)) for head in rng.choice(5, 2, replace=False)]
        drawn += [Head(1, int(rng.integers(5))), Head(3, int(rng.integers(5)))]
        shared.append(len(chosen & set(drawn)))
    law = np.bincount(shared, minlength=5) / len(shared)
    np.testing.assert_allclose(chance_of(chosen, EVERY), law, atol=0.03)


def test_chance_draws_from_the_heads_that_may_be_chosen() -> None:
    per_query = np.tile([[[4.0, 3.0, 2.0, np.nan, np.nan]]], (10, 1, 1))
    found = stability(by_mean(per_query), [Head(0, 0)], 10)
    assert found is not None and found.chance_mean == pytest.approx(1 / 3)
    found = stability(by_mean(per_query), [Head(0, 0)], 10, pool=[Head(0, h) for h in range(5)])
    assert found is not None and found.chance_mean == pytest.approx(1 / 5)


def test_where_chance_reaches_the_whole_set_nothing_is_told() -> None:
    per_query = np.zeros((20, 1, 12))
    per_query[:, 0, 3] = 1.0
    found = stability(by_mean(per_query), [Head(0, 3)], 20)
    assert found is not None and (found.overlap, found.halves, found.chance_95) == (1, 1, 1)
    assert found.verdict == "undecided"  # one of twelve: chance draws it in 8 % of draws
    wide = np.zeros((20, 1, 24))
    wide[:, 0, 3] = 1.0
    found = stability(by_mean(wide), [Head(0, 3)], 20)
    assert found is not None and (found.chance_95, found.verdict) == (0, "stable")


def test_elsewhere_the_same_rule_is_asked_once() -> None:
    here, there = np.zeros((20, 1, 24)), np.zeros((5, 1, 24))
    here[:, 0, :2] = 1.0
    there[:, 0, 1:3] = 1.0
    beside = [Elsewhere(VALIDATION, by_mean(there), 5), Elsewhere(VALIDATION, by_mean(there), 0)]
    found = stability(by_mean(here), [Head(0, 0), Head(0, 1)], 20, elsewhere=beside)
    assert found is not None
    assert [(one.overlap, one.n_queries) for one in found.sources] == [(0.5, 5)]


def test_among_some_heads_alone() -> None:
    rule = among(by_mean(np.tile([[[3.0, 2.0, 1.0]]], (4, 1, 1))), mask_of([Head(0, 1)], (1, 3)))
    assert np.isfinite(rule(np.ones((2, 4)))).tolist() == [[[False, True, False]]] * 2


def test_means_of_weighted_queries() -> None:
    per_query = np.array([[[1.0, 3.0, np.nan]], [[5.0, np.nan, np.nan]]])
    scores = by_mean(per_query)(np.array([[3.0, 1.0], [0.0, 2.0]]))
    assert scores[0, 0].tolist() == pytest.approx([2, 3, np.nan], nan_ok=True)
    assert scores[1, 0].tolist() == pytest.approx([5, np.nan, np.nan], nan_ok=True)
