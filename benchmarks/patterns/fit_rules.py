"""Fitting the thresholds of the transparent classifier, one after the other, on labelled maps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.patterns.labels import macro_f1, table_of
from qt_bert.evaluation.arrays import FloatArray, IntArray
from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.rules import Rules

ROUNDS = 4
FITTED = ("even", "even_own", "band", "columns")
"""What tells vertical + diagonal maps is left as it is: too few of them are labelled to fit it on."""
GRID = tuple(np.linspace(0.05, 0.95, 37).round(3).tolist())


def fit_rules(features: FloatArray, labels: IntArray) -> Rules:
    """The thresholds of the best macro-F1 over the kinds that are there, each from GRID.

    They are set in turn, ROUNDS times; the value in the middle of the equally good ones is taken.
    """
    present = [kind for place, kind in enumerate(KINDS) if (labels == place).any()]

    def score(rules: Rules) -> float:
        return macro_f1(table_of(labels, rules.of_features(features)), present)

    rules = Rules()
    for _ in range(ROUNDS):
        for name in FITTED:
            tried = [replace(rules, **{name: value}) for value in GRID]
            scores = np.array([score(one) for one in tried])
            best = np.flatnonzero(scores >= scores.max() - 1e-12)
            rules = tried[best[len(best) // 2]]
    return rules
