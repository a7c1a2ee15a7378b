"""Estimates from few labels and a judge: by hand, and their coverage on simulated files."""

from dataclasses import replace

import numpy as np
import pytest

from qt_bert.stats.comparison import metric_estimate
from qt_bert.stats.estimate import over_queries
from qt_bert.stats.few_labels import (
    MOST_DRAWN,
    chance_weights,
    doubts,
    draw_queries,
    prediction_powered,
    suspicion,
    value_and_error,
)
from qt_bert.stats.judgements import judge_grades


def test_an_estimate_by_hand():
    people = over_queries([1.0, 0.0, 1.0, 1.0], "abcd")
    judge = over_queries([1.0, 0.0, 0.0, 1.0], "abcd")
    both = prediction_powered(people, judge, (0.6, 0.03), 12)  # λ = 12 / 16
    assert both.value == pytest.approx(0.75 + 0.75 * (0.6 - 0.5))
    assert both.values - both.value == pytest.approx(np.array([1, 0, 4, 1]) / 4 - 0.375)
    assert both.reach == pytest.approx(1.96 * 0.75 * 0.03, rel=1e-4)
    low, high = both.interval()
    inner_low, inner_high = both.query_interval()
    assert both.value - low == pytest.approx(np.hypot(both.value - inner_low, both.reach))
    assert high - both.value == pytest.approx(np.hypot(inner_high - both.value, both.reach))


def test_the_error_of_the_rest_is_that_of_its_mean(random_judgements):
    judged = random_judgements(0, n=900, n_queries=300)
    value, error = value_and_error([judged], "accuracy")
    estimate = metric_estimate(judged, "accuracy")
    assert value == estimate.value
    expected = np.std(estimate.values, ddof=1) / np.sqrt(estimate.n_queries)
    assert error == pytest.approx(expected, rel=0.15)
    assert value_and_error([judged, judged], "qwk") == (0, 0)


def test_queries_are_drawn_by_doubt_and_each_has_a_chance():
    doubt, sizes = np.array([1.0, 0.25] * 50), np.array([2, 2, 1, 1] * 25)
    free = np.arange(100) >= 20
    counts, chances, pairs = np.zeros(100), None, []
    for seed in range(400):
        drawn, chances = draw_queries(doubt, sizes, free, 30, seed)
        counts[drawn] += 1
        pairs.append(sizes[drawn].sum())
        assert abs(len(drawn) - chances[free].sum()) < 1
    assert chances[::2] / chances[1::2] == pytest.approx(2) and (chances > 0).all()
    assert (chances * sizes)[free].sum() == pytest.approx(30)
    assert np.mean(pairs) == pytest.approx(30, abs=0.3)
    assert not counts[:20].any() and counts[free] / 400 == pytest.approx(chances[free], abs=0.1)
    assert counts[free][::2].mean() / 400 == pytest.approx(chances[0], abs=0.01)
    _, capped = draw_queries(doubt, sizes, free, 100, 0)
    assert capped.max() == MOST_DRAWN and (capped * sizes)[free].sum() == pytest.approx(100)


def test_a_label_is_doubted_by_how_far_it_may_move_kappa():
    nan, near = np.nan, np.exp(-2) / (1 + np.exp(-2))  # the other of the grades 1 and 3
    judge, model = np.array([1.0, 3.0, 3.0, nan]), np.array([3.0, 3.0, nan, 1.0])
    doubt = doubts(np.full(4, nan), judge, model)
    assert np.ptp(doubts(np.full(4, nan), np.full(4, 3.0))) == 0 < doubts(judge, judge).min()
    assert doubt == pytest.approx([16 * near * 1.05] * 4)
    people = np.array([nan, 1.0, nan, nan])  # the judge's 3 was 1: three and one labels
    other = (3 * near + 1) / 4
    assert doubts(people, judge)[[0, 1, 3]] == pytest.approx(
        np.array([near, other, other]) * 16 + 0.05 * 16 * (near + 3 * other) / 4
    )


def test_weights_of_drawn_queries_scale_with_what_is_labelled():
    chance, labelled = np.array([0.5, 0.5, 0.25, 0.75]), np.array([True, False, False, False])
    assert chance_weights(chance, labelled) == pytest.approx([2, 4 / 3, 8 / 7, 8 / 5])  # half done


def test_labels_that_others_outdo_are_suspect():
    table = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.9, 0.1], [0.45, 0.55]])
    likely, margin = suspicion(table, np.array([0, 0, 1, 1, 0]))  # usual: 1.85 / 3 and .4
    assert likely.tolist()[3:] == [0, 1] and margin[3:] == pytest.approx([0.8, 0.1])
    assert (margin[:3] < 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [False, True])
def test_intervals_cover_whatever_the_judge_is_worth(drawn):
    """300 files of 900 queries of 2 titles, 60 queries labelled; the judge is right in 75 %, higher else."""
    covered, narrower = {"accuracy": [], "qwk": []}, []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        truth = rng.integers(1, 6, 1_800)
        judge = np.where(rng.random(1_800) < 0.75, truth, np.minimum(truth + 1, 5))
        model = np.where(rng.random(1_800) < 0.6, truth, rng.integers(1, 6, 1_800))
        index = np.arange(1_800) // 2
        doubt = np.bincount(index, np.where(judge == model, 0.1, 1.0)) / 2
        every, sizes = np.ones(900, dtype=bool), np.full(900, 2)
        chosen, chance = draw_queries(doubt if drawn else every + 0.0, sizes, every, 120, seed)
        few = np.isin(np.arange(900), chosen)
        weights = chance_weights(chance, few)
        parts = []
        for labels, queries in ((truth, few), (judge, few), (judge, ~few)):
            rows = queries[index]
            grades, names = labels[rows, None].tolist(), list(map(str, index[rows]))
            part = judge_grades(np.eye(5)[model[rows] - 1], grades, names)
            parts.append(replace(part, query_weights=weights[queries]))
        for name, hits in covered.items():
            people, by_judge = (metric_estimate(part, name) for part in parts[:2])
            both = prediction_powered(people, by_judge, value_and_error(parts[2:], name), 840)
            low, high = both.interval(400)
            # what the files are drawn from: .6 + .4 / 5 right, and κ of that, since chance costs alike
            hits.append(low <= {"accuracy": 0.68, "qwk": 0.6}[name] <= high)
            if name == "accuracy":
                alone = people.interval(400)
                narrower.append((high - low) / (alone[1] - alone[0]))
    for hits in covered.values():
        assert 0.92 <= np.mean(hits) <= 0.985
    assert np.mean(narrower) < 0.9
