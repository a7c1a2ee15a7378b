"""Few labels of people, many of a judge: a statistic from both, with a valid interval whatever the judge is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray
from qt_bert.stats.comparison import metric_estimate
from qt_bert.stats.estimate import NORMAL, Estimate
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics import METRICS, bootstrap

MOST_DRAWN = 0.9
"""The largest chance of a query to be drawn: some like it stay unlabelled."""
ESTIMATED = ("accuracy", "qwk", "spearman", "ndcg_at_5", "pairwise_accuracy")
PRIOR, LEAST_DOUBT = 3.0, 0.05
DRAWS = 400
"""Resamples behind the error of the rest."""


def prediction_powered(
    human: Estimate, judge: Estimate, rest: tuple[float, float], n_rest: int
) -> Estimate:
    """θ_human + λ (θ_rest − θ_judge), λ = N / (N + n): a statistic over n labelled queries, corrected by a judge.

    `human` and `judge` are the statistic by the labels of each over these n queries, `rest` its value by the
    judge over `n_rest` other queries, and that value's standard error, which is joined as `reach`. λ is fixed:
    tuned on the same labels it makes intervals too narrow. A. N. Angelopoulos et al., "Prediction-powered
    inference", Science 382 (2023).
    """
    value, error = rest
    share = n_rest / (n_rest + human.n_queries)
    return replace(human + share * (value - judge), reach=NORMAL * share * error)


def estimate_of(models: Sequence[Judgements], name: str) -> Estimate:
    """A metric of one model, or of the second less the first, judged on pseudo-values over queries."""
    first, *second = (metric_estimate(model, name) for model in models)
    return second[0] - first if second else first


def value_and_error(models: Sequence[Judgements], name: str) -> tuple[float, float]:
    """The same metric or difference, and its standard error by a bootstrap over queries."""
    of_models = [bootstrap(model, [METRICS[name]], DRAWS, 0) for model in models]
    drawn = [np.concatenate([points, samples[0]]) for points, samples in of_models]
    change = drawn[-1] - drawn[0] if drawn[1:] else drawn[0]
    return float(change[0]), float(np.nanstd(change[1:]))


def standard_error(estimate: Estimate) -> float:
    """That over queries, joined with what `reach` holds."""
    of_queries = estimate.values.std(ddof=1) / np.sqrt(estimate.n_queries)
    return float(np.hypot(of_queries, estimate.reach / NORMAL))


def draw_queries(
    doubt: FloatArray, sizes: IntArray, free: BoolArray, n: int, seed: int
) -> tuple[IntArray, FloatArray]:
    """Draw some of the queries [Q] that are `free`, of together about `n` pairs: their numbers in random order, and
    the chance that each of the Q would have been drawn.

    A chance is proportional to the root of the mean `doubt` of the query's pairs, of which there are `sizes` (J.
    Neyman, JRSS 97, 1934). Queries are taken at even steps along the cumulated chances, in random order.
    """
    share, rng = np.sqrt(doubt), np.random.default_rng(seed)
    for _ in range(50):  # until n pairs are expected, though no chance passes MOST_DRAWN
        share *= n / (sizes * np.minimum(share, MOST_DRAWN))[free].sum()
    chance, order = np.minimum(share, MOST_DRAWN), rng.permutation(np.flatnonzero(free))
    steps = np.floor(np.cumsum(chance[order]) + rng.random())
    return rng.permutation(order[np.diff(steps, prepend=0.0) > 0]), chance


def doubts(people: FloatArray, judge: FloatArray, model: FloatArray | None = None) -> FloatArray:
    """The mean square that a label of people's is expected to move QWK by, corrected by the judge's [n].

    Of a pair with the grades m, h, j of model, people and judge it is ((m − h)² − (m − j)²)², without a model
    (h − j)⁴, over how likely each h is where the judge says j: by the labels there are (`people`, NaN without)
    and PRIOR more that lie close. The largest for a pair without a judge's grade.
    """
    grades = np.unique(
        np.concatenate([people, judge])[np.isfinite(np.concatenate([people, judge]))]
    )
    likely = np.exp(-np.abs(grades[:, None] - grades))
    likely *= PRIOR / likely.sum(axis=1, keepdims=True)
    both = np.isfinite(people) & np.isfinite(judge)
    np.add.at(likely, tuple(np.searchsorted(grades, each[both]) for each in (judge, people)), 1)
    likely /= likely.sum(axis=1, keepdims=True)
    model = judge if model is None else np.where(np.isfinite(model), model, judge)
    moved = np.square(np.square(model[:, None] - grades) - np.square(model - judge)[:, None])
    of = np.minimum(np.searchsorted(grades, judge), len(grades) - 1)  # NaN comes last
    doubt = (likely[of] * moved).sum(axis=1)
    doubt = np.where(np.isnan(doubt), np.nanmax(doubt), doubt)
    return doubt + LEAST_DOUBT * (doubt.mean() or 1.0)  # all certain: each alike


def chance_weights(chance: FloatArray, labelled: BoolArray) -> FloatArray:
    """Weights of queries [Q] that were drawn with a `chance`, and of the others.

    Where a share of those drawn is labelled, all chances were smaller by it.
    """
    share = min(1.0, labelled.sum() / chance.sum())
    return 1 / np.where(labelled, chance, 1 - np.minimum(share * chance, MOST_DRAWN))


def suspicion(table: FloatArray, truth: IntArray) -> tuple[IntArray, FloatArray]:
    """The level that each label should perhaps be [n], and how much more probability it has; up to 0: none.

    Another level counts where it has at least the mean probability that pairs labelled so get, by `table`
    [n, L]. C. G. Northcutt, L. Jiang and I. L. Chuang, "Confident learning", JAIR 70 (2021).
    """
    rows = np.arange(len(table))
    usual = [table[truth == k, k].mean() if k in truth else 1.0 for k in range(table.shape[1])]
    sure = np.where(table >= np.array(usual), table, 0.0)
    sure[rows, truth] = 0.0
    return sure.argmax(axis=1), sure.max(axis=1) - table[rows, truth]
