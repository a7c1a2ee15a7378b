"""Which heads have a function: tests over queries, q over heads, least score and weight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from qt_bert.encoder.heads import Head
from qt_bert.probes.common.naming import (
    by_mean,
    by_query,
    comes_back,
    name_heads,
    one_sided_p,
    ranked,
)


def test_p_is_a_one_sided_t_test_over_the_queries_that_speak() -> None:
    rng = np.random.default_rng(0)
    excess = rng.normal(0.3, 1.0, size=(30, 2, 2))
    excess[:4, 1, 1] = np.nan
    p = one_sided_p(excess)
    for place in np.ndindex(2, 2):
        values = excess[(slice(None), *place)]
        values = values[np.isfinite(values)]
        assert p[place] == pytest.approx(ttest_1samp(values, 0, alternative="greater").pvalue)


@pytest.mark.parametrize("values", [[], [0.7], [np.nan, np.nan]])
def test_too_few_queries_are_no_test(values: list[float]) -> None:
    assert one_sided_p(np.array(values)) == 1.0


def test_all_three_bars_must_be_passed() -> None:
    score = np.array([[3.0, 3.0, 1.9, 3.0]])
    p = np.array([[0.001, 0.001, 0.001, 0.9]])
    weight = np.array([[0.5, 0.04, 0.5, 0.5]])
    named = name_heads(score, p, weight, least=2.0)
    assert named.heads() == [Head(0, 0)]
    assert named.q[0].tolist() == pytest.approx([0.004 / 3] * 3 + [0.9])


def test_of_several_choices_the_smallest_q_counts_and_all_are_tests() -> None:
    p = np.array([[[0.02, 0.9], [0.9, 0.9]]])
    named = name_heads(np.full((1, 2), 5.0), p, np.ones((1, 2)), least=2.0)
    assert named.q[0, 0] == pytest.approx(0.08)  # four tests, not two
    assert named.heads() == []


def test_a_head_is_named_by_the_test_of_the_choice_its_score_is_of() -> None:
    p = np.array([[[0.001, 0.9], [0.9, 0.001]]])
    choice = np.array([[1, 1]])
    named = name_heads(np.full((1, 2), 5.0), p, np.ones((1, 2)), least=2.0, choice=choice)
    assert named.p.tolist() == [[0.9, 0.001]] and named.q[0, 1] == pytest.approx(0.002)
    assert named.heads() == [Head(0, 1)]


def test_the_best_come_first_and_nan_last() -> None:
    score = np.array([[np.nan, 2.0], [3.0, 2.0]])
    assert ranked(score) == [Head(1, 0), Head(0, 1), Head(1, 1), Head(0, 0)]


def test_a_clear_set_comes_back_whole_and_noise_does_not() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(60, 4, 5))
    scores[:, 2, 3] += 9
    clear = comes_back(by_mean(scores), [Head(2, 3)], 60, 20)
    assert clear is not None and (clear.share, clear.chance) == (1.0, pytest.approx(1 / 20))
    noise = comes_back(by_mean(scores), [Head(0, 0), Head(0, 1)], 60, 20)
    assert noise is not None and noise.share < 0.6
    assert comes_back(by_mean(scores), [], 60, 20) is None


def test_a_set_comes_back_by_the_rule_that_chose_it() -> None:
    seen = []

    def choose(weights: np.ndarray) -> list[Head]:
        seen.append(weights.sum())
        return [Head(0, 0), Head(1, 1), Head(0, 1)]

    found = comes_back(choose, [Head(0, 0), Head(0, 1)], 7, 5, resamples=3)
    assert found is not None and (found.share, found.chance) == (0.5, 2 / 5)
    assert seen == [7, 7, 7]


def test_means_of_weighted_queries_rank_the_heads() -> None:
    per_query = np.array([[[1.0, 3.0, np.nan]], [[5.0, np.nan, np.nan]]])
    heads = [Head(0, 0), Head(0, 1), Head(0, 2)]
    assert by_mean(per_query)(np.array([3.0, 1.0])) == [heads[1], heads[0], heads[2]]
    assert by_mean(per_query)(np.array([0.0, 2.0])) == heads


def test_means_by_query_leave_out_what_is_not_known() -> None:
    values = np.array([[1.0], [3.0], [np.nan], [5.0]])
    assert by_query(values, ["a", "a", "b", "a"])[0, 0] == pytest.approx(3.0)
    assert np.isnan(by_query(values, ["a", "a", "b", "a"])[1, 0])
    assert by_query(np.empty((0, 3)), []).shape == (0, 3)
