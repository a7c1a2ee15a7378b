"""Every metric that a library has, on random pairs with many ties."""

from __future__ import annotations

from collections.abc import Callable

import ir_measures
import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.judgements import Judgements, judge_scores, known
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.metrics.probability import log_loss

SEEDS = (0, 1, 2)
GAINS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "ndcg_at": lambda grade: 2.0 ** (grade - 1) - 1,
    "ndcg_linear_at": lambda grade: grade - 1,
}


@pytest.fixture(params=SEEDS)
def judged(
    request: pytest.FixtureRequest, random_judgements: Callable[..., Judgements]
) -> Judgements:
    return random_judgements(request.param)


def close(judged: Judgements, name: str, expected: float) -> None:
    assert METRICS[name].value(judged) == pytest.approx(expected, abs=1e-12)


def test_accuracy(judged: Judgements) -> None:
    close(judged, "accuracy", reference.accuracy_score(judged.truth, judged.predicted))


def test_macro_f1(judged: Judgements) -> None:
    expected = reference.f1_score(judged.truth, judged.predicted, average="macro")
    close(judged, "macro_f1", expected)


def test_qwk(judged: Judgements) -> None:
    expected = reference.cohen_kappa_score(judged.truth, judged.predicted, weights="quadratic")
    close(judged, "qwk", expected)


def test_mae(judged: Judgements) -> None:
    close(judged, "mae", reference.mean_absolute_error(judged.truth, judged.predicted))


def test_brier(judged: Judgements) -> None:
    expected = reference.brier_score_loss(
        judged.truth, judged.level_probabilities, labels=range(5), scale_by_half=False
    )
    close(judged, "brier", expected)


def test_nll(judged: Judgements) -> None:
    table = known(judged.level_probabilities)
    possible = np.flatnonzero(known(judged.label_probability) > 0)
    expected = reference.log_loss(known(judged.truth)[possible], table[possible], labels=range(5))
    assert log_loss(judged)[possible].mean() == pytest.approx(expected)


@pytest.mark.parametrize("cut", [2, 4, 5])
def test_auc(random_judgements: Callable[..., Judgements], cut: int) -> None:
    from dataclasses import replace

    judged = replace(random_judgements(3), auc_cut=float(cut))
    close(judged, "auc", reference.roc_auc_score(judged.ranking_truth >= cut, judged.ranking_score))


def test_spearman(judged: Judgements) -> None:
    close(judged, "spearman", stats.spearmanr(judged.ranking_score, judged.ranking_truth)[0])


@pytest.mark.parametrize("depth", [1, 3, 5, 10])
@pytest.mark.parametrize("prefix", GAINS)
def test_ndcg_with_ties(judged: Judgements, prefix: str, depth: int) -> None:
    values = []
    for query in np.flatnonzero(judged.eligible):
        rows = judged.query_index == query
        gains = GAINS[prefix](judged.ranking_truth[rows])
        values.append(reference.ndcg_score([gains], [judged.ranking_score[rows]], k=depth))
    close(judged, f"{prefix}_{depth}", float(np.mean(values)))


def test_linear_ndcg_without_ties_is_that_of_ir_measures() -> None:
    generator = np.random.default_rng(4)
    grades = generator.integers(1, 6, (10, 8))
    scores = generator.normal(size=(10, 8))
    relevance = {f"q{q}": {f"d{d}": int(grades[q, d]) - 1 for d in range(8)} for q in range(10)}
    run = {f"q{q}": {f"d{d}": float(scores[q, d]) for d in range(8)} for q in range(10)}
    judged = judge_scores(
        scores.ravel(), [(int(g),) for g in grades.ravel()], [f"q{i // 8}" for i in range(80)]
    )
    measure = ir_measures.nDCG @ 5
    expected = ir_measures.calc_aggregate([measure], relevance, run)[measure]
    close(judged, "ndcg_linear_at_5", expected)


def test_pairwise_accuracy_is_the_auc_of_a_query_with_two_grades() -> None:
    generator = np.random.default_rng(5)
    truth, scores = generator.integers(0, 2, 50), generator.integers(0, 9, 50)
    judged = judge_scores(scores, [(int(t) + 1,) for t in truth], ["猫"] * 50)
    close(judged, "pairwise_accuracy", reference.roc_auc_score(truth, scores))
