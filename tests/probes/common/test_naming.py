"""Which heads have a function: tests over queries, q over heads, least score and weight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from qt_bert.models.heads import Head
from qt_bert.probes.naming import by_query, name_heads, one_sided_p, ranked


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


def test_means_by_query_leave_out_what_is_not_known() -> None:
    values = np.array([[1.0], [3.0], [np.nan], [5.0]])
    assert by_query(values, ["a", "a", "b", "a"])[0, 0] == pytest.approx(3.0)
    assert np.isnan(by_query(values, ["a", "a", "b", "a"])[1, 0])
    assert by_query(np.empty((0, 3)), []).shape == (0, 3)
