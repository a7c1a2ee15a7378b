"""How well labels are read: accuracy and macro-F1 of classes, R² of numbers, and their resamples.

All are made of sums over queries or sentences, so that a resample is a matrix product and no new fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.stats.arrays import FloatArray, IntArray, count_cells, ratio, sum_by
from qt_bert.stats.intervals import bootstrap_weights


@dataclass(frozen=True, eq=False)
class Sums:
    """What a score is made of, by query or sentence.

    `good` [groups, layers] and `total` [groups, layers]: right answers and all answers, so that
    the score is their quotient; of numbers squared errors, and squared distances from the mean of
    the examples that were fitted, so that it is one less the quotient. `per_class` [3, groups, layers,
    classes]: right, predicted and true ones of each class; none of a number.
    """

    good: FloatArray
    total: FloatArray
    number: bool
    per_class: FloatArray | None = None

    def score(self, weights: FloatArray | None = None) -> FloatArray:
        """Accuracy or R² of every layer [layers], or under weights [R, groups]: [R, layers]."""
        drawn = np.ones((1, len(self.good))) if weights is None else weights
        found = ratio(drawn @ self.good, drawn @ self.total)
        found = 1 - found if self.number else found
        return found[0] if weights is None else found

    def macro_f1(self) -> FloatArray:
        """The mean over classes of 2 right / (predicted + true) [layers]; NaN of a number."""
        if self.per_class is None:
            return np.full(self.good.shape[1], np.nan)
        right, predicted, true = self.per_class.sum(axis=1)
        found = ratio(2 * right, predicted + true)
        known = np.isfinite(found)
        return ratio(np.where(known, found, 0.0).sum(axis=1), known.sum(axis=1).astype(float))

    def resampled(self, resamples: int, seed: int) -> FloatArray:
        """The score under resampled queries or sentences [R, layers]; one alone gives none.

        Sums of the same queries are resampled alike by the same seed.
        """
        groups = len(self.good)
        chunks = [np.empty((0, self.good.shape[1]))]
        if groups > 1:
            drawn = bootstrap_weights(groups, resamples, seed, width=groups)
            chunks += [self.score(weights) for weights in drawn]
        return np.concatenate(chunks)


def class_sums(
    predicted: IntArray, true: IntArray, group: IntArray, n_groups: int, classes: int
) -> Sums:
    """Of predicted classes [layers, n], true ones [n], and the query or sentence of each [n]."""

    def counted(layer: int) -> list[FloatArray]:
        right = predicted[layer] == true
        asked = ((group[right], true[right]), (group, predicted[layer]), (group, true))
        return [count_cells(by, cell, n_groups, classes) for by, cell in asked]

    per_class = np.array([counted(layer) for layer in range(len(predicted))])
    per_class = per_class.transpose(1, 2, 0, 3)
    return Sums(per_class[0].sum(axis=-1), per_class[2].sum(axis=-1), False, per_class)


def number_sums(
    predicted: FloatArray, true: FloatArray, group: IntArray, n_groups: int, centre: float
) -> Sums:
    """Of predicted numbers [layers, n] and true ones [n]; `centre` is the mean of those fitted."""
    errors = np.stack([sum_by(group, np.square(one - true), n_groups) for one in predicted], axis=1)
    spread = sum_by(group, np.square(true - centre), n_groups)
    return Sums(errors, np.repeat(spread[:, None], len(predicted), axis=1), True)
