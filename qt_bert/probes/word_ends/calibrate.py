"""Every head's best reading on discovery, and what the same search finds by chance.

For a number x, the best balanced accuracy of "a word ends where x is above (or not above) t" over
all t and both sides is (1 + the Kolmogorov–Smirnov distance of x at ends and elsewhere) / 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import BoolArray, FloatArray, IntArray
from qt_bert.probes.common.averages import means
from qt_bert.probes.common.naming import Named, name_heads, one_sided_p
from qt_bert.probes.word_ends.decisions import Decisions
from qt_bert.probes.word_ends.weights import FEATURES, Float32Array, Weights

LEAST_BALANCED = 0.60
"""The balanced accuracy from which on a head is said to know word ends."""


@dataclass(frozen=True, eq=False)
class Reading:
    """How each head is read, arrays of [..., heads]: a word ends where `feature` is above
    `threshold`, or where it is not (`high` False)."""

    feature: IntArray
    threshold: Float32Array
    high: BoolArray

    def values(self, features: Float32Array) -> Float32Array:
        """The chosen feature of each head, turned so that a word ends at large values [heads, D]."""
        chosen = features[self.feature, np.arange(len(self.feature))]
        return np.where(self.high[:, None], chosen, -chosen)

    def say(self, features: Float32Array) -> BoolArray:
        """Whether a word ends, by each head [3, heads, D] → [heads, D]."""
        chosen = features[self.feature, np.arange(len(self.feature))]
        return np.asarray((chosen > self.threshold[:, None]) == self.high[:, None])


@dataclass(frozen=True, eq=False)
class Calibrated:
    """All heads read on discovery: a `Reading` a layer, and which heads are named.

    `per_query` [Q, layers, heads] has the balanced accuracy as its mean, `null` [layers, heads] is
    what shifted references reach by the same search.
    """

    readings: tuple[Reading, ...]
    named: Named
    per_query: FloatArray
    null: FloatArray

    def say(self, weights: Weights) -> BoolArray:
        """Whether a word ends, by each head [layers, heads, D]."""
        layers = enumerate(self.readings)
        return np.stack([one.say(weights.features(layer)) for layer, one in layers])

    def margin(self, weights: Weights, head: Head) -> Float32Array:
        """How far beyond its threshold a head is read [D]; a word ends above 0."""
        one = self.readings[head.layer]
        values = one.values(weights.features(head.layer))[head.head]
        return np.asarray(values - np.where(one.high, one.threshold, -one.threshold)[head.head])

    def values(self, weights: Weights) -> Float32Array:
        """What each head is read by, large at word ends [layers, heads, D]."""
        layers = enumerate(self.readings)
        return np.stack([one.values(weights.features(layer)) for layer, one in layers])

    def feature(self, head: Head) -> str:
        """Which of `FEATURES` the head is read by."""
        return FEATURES[self.readings[head.layer].feature[head.head]]

    def condition(self, head: Head) -> str:
        """Where the feature means a word end, as in `> -0.31`."""
        one = self.readings[head.layer]
        sign = ">" if one.high[head.head] else "≤"
        return f"{sign} {one.threshold[head.head]:.3g}"


def calibrate(
    weights: Weights, decisions: Decisions, labels: BoolArray, *, shifts: int, seed: int
) -> Calibrated:
    """Read every head by balanced accuracy against `labels` [D], and test it against `shifts` others.

    A head's p is that of its share of each query, less the mean under shifted references, with
    everything searched anew for each. `decisions` have texts of at least two decisions only.
    """
    shifted = list(shifted_labels(labels, decisions, shifts, seed))
    readings, found, nulls = [], [], []
    for layer in range(weights.shape.layers):
        search = _Search(weights.features(layer))
        readings.append(search.best(labels))
        found.append(search.by_query(readings[-1], labels, decisions))
        null = np.zeros_like(found[-1])
        for others in shifted:
            null += search.by_query(search.best(others), others, decisions) / max(1, shifts)
        nulls.append(null)
    per_query, null_scores = np.stack(found, 1), np.stack(nulls, 1)
    score = means(per_query)
    p = one_sided_p(per_query - null_scores)
    named = name_heads(score, p, weights.own, least=LEAST_BALANCED)
    return Calibrated(tuple(readings), named, per_query, means(null_scores))


def shifted_labels(
    labels: BoolArray, decisions: Decisions, shifts: int, seed: int
) -> Iterator[BoolArray]:
    """`labels` moved around within each text by a random number of places, never by none [D].

    A text of one decision cannot be moved, and keeps its label.
    """
    rng = np.random.default_rng([seed, shifts])
    sizes = decisions.text_sizes
    each = np.repeat(np.arange(len(sizes)), sizes)
    start, size = decisions.text_starts[each], sizes[each]
    place = np.arange(len(labels)) - start
    for _ in range(shifts):
        by = rng.integers(1, np.maximum(sizes, 2))
        yield labels[start + (place + by[each]) % size]


class _Search:
    """The best reading of one layer's heads, for any labels: sorted once."""

    def __init__(self, features: Float32Array) -> None:
        self.features = features
        self.order = np.argsort(features, axis=-1, kind="stable")
        ranked = np.take_along_axis(features, self.order, -1)
        self.ranked = ranked
        self.apart = ranked[..., :-1] != ranked[..., 1:]

    def best(self, labels: BoolArray) -> Reading:
        """The reading of each head with the largest balanced accuracy."""
        kinds, heads, number = self.features.shape
        if number < 2:
            empty = np.zeros(heads)
            return Reading(empty.astype(int), empty.astype(np.float32), empty == 0)
        below = np.cumsum(_gain(labels)[self.order], axis=-1)[..., :-1] * self.apart
        cut = np.abs(below).argmax(-1)
        reached = np.take_along_axis(below, cut[..., None], -1)[..., 0]
        feature = np.abs(reached).argmax(0)
        each = np.arange(heads)
        cut = cut[feature, each]
        low, high = self.ranked[feature, each, cut], self.ranked[feature, each, cut + 1]
        middle = low + (high - low) / 2
        return Reading(feature, np.where(middle < high, middle, low), reached[feature, each] < 0)

    def by_query(self, reading: Reading, labels: BoolArray, decisions: Decisions) -> FloatArray:
        """Each query's share of the balanced accuracy [Q, heads]."""
        return balanced_by_query(reading.say(self.features), labels, decisions)


def balanced_by_query(said: BoolArray, labels: BoolArray, decisions: Decisions) -> FloatArray:
    """Each query's share of the balanced accuracy of what heads say [heads, D] → [Q, heads].

    Their mean is the balanced accuracy; NaN where it is not defined.
    """
    starts = decisions.query_starts
    if not len(starts) or labels.all() or not labels.any():
        return np.full((len(starts), len(said)), np.nan)
    right = (said == labels) * np.abs(_gain(labels)) / 2
    return np.asarray(np.add.reduceat(right, starts, axis=-1).T * len(starts))


def _gain(labels: BoolArray) -> FloatArray:
    """1 / ends at a word end, −1 / others elsewhere [D]; 0 where there is one kind alone."""
    ends = int(labels.sum())
    others = labels.size - ends
    if not ends or not others:
        return np.zeros(labels.size)
    return np.where(labels, 1 / ends, -1 / others)
