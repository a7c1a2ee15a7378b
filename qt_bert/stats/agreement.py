"""Agreement of raters beyond chance: Cohen's κ of two, Krippendorff's α of all."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from qt_bert.stats.arrays import FloatArray, IntArray, ratio
from qt_bert.stats.intervals import bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.metrics import (
    METRICS,
    Metric,
    additive,
    as_matrices,
    confusion_by_query,
    weighted_kappa,
)
from qt_bert.text import Text


def _kappa(flat: FloatArray) -> FloatArray:
    confusions = as_matrices(flat)
    return weighted_kappa(confusions, 1 - np.eye(confusions.shape[1]))


OF_TWO = {
    "kappa": Metric(
        name="kappa",
        title=Text("κ", "κ"),
        description=Text("扣除偶然一致后的一致性。", "Agreement beyond chance."),
        estimator=additive(confusion_by_query, _kappa),
        undefined="all labels are one",
    ),
    "quadratic_kappa": METRICS["qwk"],
    "within_one": METRICS["within_one"],
    "bias": METRICS["bias"],
}
"""What is measured of two raters, the second one's levels as predictions of the first one's."""


def alpha(
    levels: IntArray, query_index: IntArray, n_levels: int, *, resamples: int, seed: int = 0
) -> dict[str, Any]:
    """Krippendorff's α for ordered `levels` [n, raters], −1 where a rater gave none.

    `{value, ci_low, ci_high, reason}`, with a bootstrap over the queries 0..Q−1 of the pairs [n]. K.
    Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).
    """
    ratings, n_queries = (levels >= 0).sum(axis=1), int(query_index.max()) + 1
    table = np.zeros((n_queries, n_levels, n_levels))
    for a, b in permutations(levels.T, 2):
        both = (a >= 0) & (b >= 0)
        np.add.at(table, (query_index[both], a[both], b[both]), 1 / (ratings[both] - 1))
    flat = table.reshape(n_queries, -1)

    def estimate(weights: FloatArray) -> FloatArray:
        coincidences = as_matrices(weights @ flat)
        totals = coincidences.sum(axis=2)
        rank = totals.cumsum(axis=1) - totals / 2
        penalty = np.square(rank[:, :, None] - rank[:, None])
        observed = np.einsum("rck,rck->r", coincidences, penalty)
        expected = np.einsum("rc,rk,rck->r", totals, totals, penalty)
        return 1 - ratio(observed * (totals.sum(axis=1) - 1), expected)

    value = float(estimate(np.ones((1, n_queries)))[0])
    drawn = resample(
        [estimate], bootstrap_weights(n_queries, resamples, seed, width=flat.shape[1])
    )[0]
    ends = interval_or_reason(drawn, n_queries)
    if np.isnan(value):
        return {"value": None, "ci_low": None, "ci_high": None, "reason": "all labels are one"}
    return {"value": value} | dict(zip(("ci_low", "ci_high", "reason"), ends, strict=True))
