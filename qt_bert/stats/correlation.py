"""Spearman's ρ of a model's scores and the labels, and how an intervention changes it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from scipy.stats import rankdata

from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.estimate import Estimate, jackknife


def spearman(one: FloatArray, other: FloatArray) -> float:
    """ρ of two series [items], ties at their mean rank; NaN where either does not vary, or is empty."""
    if not len(one):
        return math.nan
    first, second = rankdata(one), rankdata(other)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])


def rho(scores: FloatArray, grades: FloatArray, queries: Sequence[Hashable]) -> Estimate:
    """ρ of the scores and the mean grades of all pairs [pairs], judged as Fisher's z over queries."""
    return jackknife(lambda rows: spearman(scores[rows], grades[rows]), queries, correlation=True)


def change_of_rho(
    ablated: Sequence[FloatArray],
    clean: FloatArray,
    grades: FloatArray,
    queries: Sequence[Hashable],
) -> Estimate:
    """ρ under some variants, mean over them, less the clean model's; all [pairs].

    A change that should be small is judged on the jackknife pseudo-values of the difference.
    """

    def change(rows: IntArray) -> float:
        left = [spearman(scores[rows], grades[rows]) for scores in ablated]
        return float(np.mean(left)) - spearman(clean[rows], grades[rows])

    return jackknife(change, queries)
