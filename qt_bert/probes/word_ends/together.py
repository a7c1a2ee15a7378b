"""Several heads as one: a vote of a few, a linear combination of all; and characters without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import BoolArray, FloatArray
from qt_bert.probes.word_ends.weights import EPSILON, Weights

MOST_VOTES = 7
RIDGE = 0.1
"""The inverse strength of the linear combination's penalty, on standardised numbers."""


def vote(said: BoolArray, heads: Sequence[Head]) -> BoolArray:
    """The majority of an odd number of heads [layers, heads, D] → [D]."""
    return np.asarray(np.mean([said[head] for head in heads], axis=0) > 0.5)


def best_voters(said: BoolArray, labels: BoolArray) -> list[Head]:
    """The odd number of heads, up to seven, whose vote has the best balanced accuracy on discovery.

    Heads are added one by one, each time the one whose vote with those before is best; a tie counts
    half. `said` [layers, heads, D] and `labels` [D] are those of discovery.
    """
    gain = np.where(labels, 1 / max(1, labels.sum()), -1 / max(1, (~labels).sum()))
    layers, heads, number = said.shape
    flat = np.where(said.reshape(layers * heads, number), 1.0, -1.0)
    chosen: list[int] = []
    reached: list[float] = []
    votes = np.zeros(len(labels))
    for _ in range(min(MOST_VOTES, len(flat))):
        scores = np.sign(votes + flat) @ gain
        scores[chosen] = -np.inf
        chosen.append(int(scores.argmax()))
        reached.append(float(scores[chosen[-1]]))
        votes += flat[chosen[-1]]
    size = 2 * int(np.argmax(reached[::2])) + 1
    return [Head(place // heads, place % heads) for place in chosen[:size]]


def combine(learned: Weights, labels: BoolArray, asked: Weights, *, seed: int) -> BoolArray:
    """What a logistic regression over all heads says of `asked` [D], fitted on `learned`.

    Its numbers are log next and log [SEP] weight of every head. Where the labels are of one kind,
    that is what it says.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if labels.all() or not labels.any():
        return np.full(asked.next.shape[-1], bool(len(labels)) and bool(labels.all()))
    if not asked.next.shape[-1]:
        return np.zeros(0, bool)
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=RIDGE, max_iter=500, random_state=seed)
    )
    model.fit(_numbers(learned), labels)
    return np.asarray(model.predict(_numbers(asked)), bool)


def _numbers(weights: Weights) -> FloatArray:
    """[D, 2 × all heads]."""
    both = np.stack([weights.next, weights.sep])
    return np.log(both.reshape(-1, both.shape[-1]).T.astype(np.float64) + EPSILON)


def by_character(learned: Sequence[str], labels: BoolArray, asked: Sequence[str]) -> BoolArray:
    """What each left character's own share of word ends says: no model, no context [D].

    A character's share is drawn to that of all by one count; unknown ones have that of all.
    """
    overall = float(labels.mean()) if len(labels) else 0.0
    counts: dict[str, list[float]] = {}
    for character, ends in zip(learned, labels, strict=True):
        one = counts.setdefault(character, [overall, 1.0])
        one[0] += float(ends)
        one[1] += 1
    shares = [counts.get(character, [overall, 1.0]) for character in asked]
    return np.array([ends / number >= 0.5 for ends, number in shares], bool)
