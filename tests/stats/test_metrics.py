"""Every metric on six pairs against fractions worked out on paper, against libraries on random pairs
with many ties, and what must hold on any data."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations
from math import log, log2, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, Qrel, R, ScoredDoc, calc_aggregate
from scipy import stats
from sklearn import metrics as reference

from qt_bert.stats.comparison import side_by_side
from qt_bert.stats.judgements import Judgements, judge_grades, judge_numbers, judge_scores, known
from qt_bert.stats.metrics import (
    METRICS,
    confidence_bin,
    dcg_by_query,
    log_loss,
    ordered_pairs_by_query,
)

BY_HAND = {
    "accuracy": 4 / 6,
    "macro_f1": 3 / 5,
    "qwk": 41 / 65,
    "mae": 2 / 3,
    "macro_mae": 4 / 5,
    "within_one": 4 / 6,
    "bias": 1.25 / 6,
    "far_errors": 2 / 6,
    "over_graded": 1 / 6,
    "under_graded": 1 / 6,
    "ndcg_at_1": 1.0,
    **{f"ndcg_at_{k}": 16.5 / (15 + 3 / log2(3)) for k in (3, 5, 10)},
    "ndcg_linear_at_1": 1.0,
    **{f"ndcg_linear_at_{k}": 5 / (4 + 2 / log2(3)) for k in (3, 5, 10)},
    **dict.fromkeys(("mrr_at_10", "map", "recall_at_5", "recall_at_10"), 2 / 3),  # 猫粮: none, 0
    "pnr": 2 / 1,
    "pairwise_accuracy": 2 / 3,
    "auc": 1.0,
    "spearman": 13 / sqrt(17.5 * 17),
    "ece": 1 / 8,
    "brier": 13 / 24,
    "nll": (log(4 / 3) + 7 * log(2)) / 6,
}


def test_every_metric_has_its_value_by_hand():
    missing = sorted(set(METRICS) - set(BY_HAND))
    assert not missing, f"no value by hand, in BY_HAND, for: {', '.join(missing)}"


@pytest.mark.parametrize("name", BY_HAND)
def test_value_by_hand(hand, name):
    assert METRICS[name].value(hand) == pytest.approx(BY_HAND[name], abs=1e-12)


def test_a_confidence_at_an_edge_is_in_the_bin_below():
    edges = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
    for confidences in (edges, np.nextafter(edges, 2), np.nextafter(edges, 0)):
        assert confidence_bin(confidences).tolist() == [2, 5, 8, 11, 14]


def test_a_label_of_no_probability_costs_a_finite_loss():
    judged = judge_grades([[1.0, 0, 0, 0, 0]], [(5,)], ["猫"])
    assert METRICS["nll"].value(judged) == pytest.approx(708.3964, abs=1e-3)


def test_coarse_calibration_is_over_levels():
    judged = judge_grades(
        [[0.25, 0.25, 0.25, 0.25, 0], [0, 0, 0.5, 0.5, 0]], [(1, 2), (3, 4, 5)], ["猫", "狗"]
    )
    assert METRICS["brier"].value(judged) == pytest.approx((0.5 + 0) / 2)
    assert METRICS["nll"].value(judged) == pytest.approx(log(2) / 2)
    assert METRICS["ece"].value(judged) == pytest.approx(0.5 / 2)


GAINS = {"ndcg_at": lambda grade: 2.0 ** (grade - 1) - 1, "ndcg_linear_at": lambda grade: grade - 1}
LIBRARIES: dict[str, Callable[[Judgements], float]] = {
    "accuracy": lambda j: reference.accuracy_score(j.truth, j.predicted),
    "macro_f1": lambda j: reference.f1_score(j.truth, j.predicted, average="macro"),
    "qwk": lambda j: reference.cohen_kappa_score(j.truth, j.predicted, weights="quadratic"),
    "mae": lambda j: reference.mean_absolute_error(j.truth, j.predicted),
    "brier": lambda j: reference.brier_score_loss(
        j.truth, j.level_probabilities, labels=range(5), scale_by_half=False
    ),
    "auc": lambda j: reference.roc_auc_score(j.ranking_truth >= j.auc_cut, j.ranking_score),
    "spearman": lambda j: stats.spearmanr(j.ranking_score, j.ranking_truth)[0],
}


@pytest.fixture(params=(0, 1, 2))
def judged(request, random_judgements) -> Judgements:
    return replace(random_judgements(request.param), auc_cut=(2.0, 4.0, 5.0)[request.param])


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_value_is_a_librarys(judged, name):
    assert METRICS[name].value(judged) == pytest.approx(LIBRARIES[name](judged), abs=1e-12)


def test_nll(judged):
    table = known(judged.level_probabilities)
    possible = np.flatnonzero(known(judged.label_probability) > 0)
    expected = reference.log_loss(known(judged.truth)[possible], table[possible], labels=range(5))
    assert log_loss(judged)[possible].mean() == pytest.approx(expected)


@pytest.mark.parametrize("depth", [1, 3, 5, 10])
@pytest.mark.parametrize("prefix", GAINS)
def test_ndcg_with_ties(judged, prefix, depth):
    values = []
    for query in np.flatnonzero(judged.eligible):
        rows = judged.query_index == query
        gains = GAINS[prefix](judged.ranking_truth[rows])
        values.append(reference.ndcg_score([gains], [judged.ranking_score[rows]], k=depth))
    assert METRICS[f"{prefix}_{depth}"].value(judged) == pytest.approx(np.mean(values), abs=1e-12)


RELEVANCE = {"mrr_at_10": RR(rel=4) @ 10, "map": AP(rel=4)}
RELEVANCE |= {f"recall_at_{depth}": R(rel=4) @ depth for depth in (5, 10)}


def test_relevant_titles_are_counted_as_ir_measures_counts_them():
    rng = np.random.default_rng(0)
    query, grades = rng.integers(40, size=300), rng.integers(1, 6, 300)
    scores = rng.permutation(400)
    judged = judge_scores(scores[:300], [(grade,) for grade in grades], list(map(str, query)))
    others, of_others = scores[300:], rng.integers(40, size=100)
    higher = (of_others == judged.query_index[:, None]) & (others > scores[:300, None])
    judged = replace(judged, unjudged=np.stack([higher.sum(axis=1), np.zeros(300, int)], axis=1))
    of = list(map(str, (*judged.query_index, *of_others)))
    qrels = [Qrel(of[i], str(i), int(grade)) for i, grade in enumerate(grades)]
    run = [ScoredDoc(of[i], str(i), float(score)) for i, score in enumerate(scores)]
    expected = calc_aggregate(list(RELEVANCE.values()), qrels, run)
    for name, measure in RELEVANCE.items():
        assert METRICS[name].value(judged) == pytest.approx(expected[measure], abs=1e-9)
    both = side_by_side(judged, judged)
    for name in RELEVANCE:  # the second model's half alone
        half = np.repeat([[0.0, 1.0]], judged.n_queries, axis=1)
        value = METRICS[name].estimator(both)(half)[0]
        assert value == pytest.approx(METRICS[name].value(judged), abs=1e-12)


TITLES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(titles=TITLES, depth=st.integers(1, 4))
def test_dcg_is_the_mean_over_all_orders_of_ties(titles, depth):
    score, gain = (np.array(column, dtype=np.float64) for column in zip(*titles, strict=True))
    dcg = dcg_by_query(np.zeros(len(titles), dtype=np.int64), 1, score, gain, depth)[0]
    dcgs = []
    for order in permutations(range(len(titles))):
        ranked = sorted(order, key=lambda title: -score[title])
        dcgs.append(sum(gain[t] / np.log2(i + 2) for i, t in enumerate(ranked[:depth])))
    assert dcg == pytest.approx(np.mean(dcgs))


@settings(max_examples=60, deadline=None)
@given(titles=TITLES, unjudged=st.lists(st.integers(0, 2), max_size=1))
def test_ranks_of_relevant_titles_are_the_mean_over_all_orders_of_ties(titles, unjudged):
    scores, grades = zip(*titles, strict=True)
    judged = judge_scores(
        np.array(scores) + 0.0, [(grade,) for grade in grades], ["猫"] * len(titles)
    )
    counts = [[sum(o > s for o in unjudged), sum(o == s for o in unjudged)] for s in scores]
    judged = replace(judged, unjudged=np.array(counts))
    scores = (*scores, *unjudged)
    relevant, values = sum(g >= 4 for g in grades), []
    for order in permutations(range(len(scores))):
        ranked = sorted(order, key=lambda title: -scores[title])
        hits = [i + 1 for i, t in enumerate(ranked) if t < len(grades) and grades[t] >= 4]
        precision = sum((n + 1) / rank for n, rank in enumerate(hits)) / max(relevant, 1)
        found = sum(rank <= 5 for rank in hits) / max(relevant, 1)
        values.append((1 / hits[0] if hits else 0, precision, found))
    names = ("mrr_at_10", "map", "recall_at_5")
    assert [METRICS[n].value(judged) for n in names] == pytest.approx(np.mean(values, axis=0))


@settings(max_examples=60, deadline=None)
@given(titles=TITLES, others=TITLES)
def test_ordered_pairs_are_those_counted_one_by_one(titles, others):
    both = titles + others
    scores, labels = [float(score) for score, _ in both], [(grade,) for _, grade in both]
    judged = judge_scores(scores, labels, ["甲"] * len(titles) + ["乙"] * len(others))
    expected = [[0, 0, 0], [0, 0, 0]]
    for query, group in enumerate((titles, others)):
        for (score, grade), (score_2, grade_2) in combinations(group, 2):
            product = (score - score_2) * (grade - grade_2)
            if grade != grade_2:
                expected[query][2 if score == score_2 else int(product < 0)] += 1
    assert ordered_pairs_by_query(judged).tolist() == expected


def repeated(judged: Judgements, drawn: list[int]) -> Judgements:
    """The pairs of each drawn query written out, every copy a query of its own."""
    rows = [np.flatnonzero(judged.query_index == query) for query in drawn]
    copies = np.repeat(np.arange(len(drawn)), [len(at) for at in rows])
    part = judged.subset(np.concatenate(rows))
    return replace(part, query_index=copies, n_queries=len(drawn))


@pytest.mark.parametrize("name", METRICS)
def test_weights_are_repeated_queries(random_judgements, name):
    judged = random_judgements(7)
    generator = np.random.default_rng(8)
    drawn = generator.integers(judged.n_queries, size=(3, judged.n_queries))
    weights = np.stack([np.bincount(queries, minlength=judged.n_queries) for queries in drawn])
    weighted = METRICS[name].estimator(judged)(weights.astype(np.float64))
    literal = [METRICS[name].value(repeated(judged, queries.tolist())) for queries in drawn]
    assert weighted.tolist() == pytest.approx(literal, abs=1e-12)


def test_numbers_are_judged_by_their_order_alone():
    numbers, scores = [0.5, 4.25, 2.75, 3.0, 3.0, 1.0], [0.1, 0.7, 0.9, 2.0, 1.0, 1.5]
    judged = judge_numbers(scores, numbers, ["a"] * 3 + ["b"] * 3)
    values = {name: metric.value(judged) for name, metric in METRICS.items()}
    assert values["pairwise_accuracy"] == pytest.approx((2 + 1) / (3 + 2))
    assert values["pnr"] == pytest.approx(3 / 2)
    assert values["spearman"] == pytest.approx(stats.spearmanr(scores, numbers).statistic)
    gains = (2.75 + 4.25 / log2(3) + 0.5 / 2) / (4.25 + 2.75 / log2(3) + 0.5 / 2)
    others = (3 + 1 / log2(3) + 3 / 2) / (3 + 3 / log2(3) + 1 / 2)
    assert values["ndcg_linear_at_3"] == pytest.approx((gains + others) / 2)
    undefined = {name for name, value in values.items() if value is None}
    assert {"accuracy", "qwk", "mae", "auc", "ece", "ndcg_at_5"} <= undefined
    assert "numbers, not grades" in (METRICS["qwk"].refusal(judged) or "")
    low = judge_numbers(scores, np.array(numbers) - 9, ["a"] * 3 + ["b"] * 3)
    assert low.ranking_truth.min() == 0 and METRICS["pnr"].value(low) == values["pnr"]
