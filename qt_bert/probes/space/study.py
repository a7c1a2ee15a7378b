"""What is run: vectors of both halves, their scores in every layer, and some layers as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import jieba_tagger
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Context
from qt_bert.probes.layers_reading import vectors
from qt_bert.probes.space.items import Items, items_of
from qt_bert.probes.space.planes import Plane, pca, tsne
from qt_bert.probes.space.scores import Score, score
from qt_bert.stats.arrays import FloatArray

QUICK_PAIRS = {"discovery": 50, "validation": 80}
FULL_PAIRS = {"discovery": 200, "validation": 300}
"""More could not be told apart in a picture."""
QUICK_DRAWS, FULL_DRAWS = 49, 999


@dataclass(frozen=True, eq=False)
class Half:
    """The items of one half, and each labelling's score in r0 … rn."""

    items: Items
    scores: dict[str, list[Score]]


@dataclass(frozen=True, eq=False)
class Study:
    """Both halves; `best` is each labelling's r of the highest score on discovery.

    `planes` are the pictures of validation: by method, labelling and r.
    """

    discovery: Half
    validation: Half
    best: dict[str, int]
    planes: dict[tuple[str, str, int], Plane]


def study(context: Context) -> Study:
    """Run all of it; where the sample holds no two classes of anything there are no scores."""
    discovery, _ = _half("discovery", context.discovery, context)
    validation, states = _half("validation", context.validation, context)
    best = {
        name: max(range(len(scores)), key=lambda number: scores[number].above_chance)
        for name, scores in discovery.scores.items()
    }
    return Study(discovery, validation, best, _planes(validation.items, states, context))


def _half(half: str, pairs: Sequence[Pair], context: Context) -> tuple[Half, FloatArray]:
    """A half, and the vectors of its items [r, n, width]."""
    limit = min(context.choose(QUICK_PAIRS, FULL_PAIRS)[half], len(pairs))
    sample = spread_over_queries(pairs, limit, context.seed)
    tag = jieba_tagger(context.userdict)
    items = items_of(sample, context.model.tokenizer, tag, context.seed)
    states = _states(items, context)
    scores = {
        name: [
            score(
                layer[one.rows],
                one.labels,
                one.queries,
                draws=context.choose(QUICK_DRAWS, FULL_DRAWS),
                resamples=context.resamples,
                seed=context.seed,
            )
            for layer in states
        ]
        for name, one in items.labellings.items()
    }
    return Half(items, scores), states


def _states(items: Items, context: Context) -> FloatArray:
    found: FloatArray | None = None
    with context.progress(items.pairs, "pairs") as shown, torch.inference_mode():
        for (seen,) in vectors(context.model, [items.places], shown=shown):
            values = seen.values.numpy()
            if found is None:
                found = np.empty((len(values), len(items.places), values.shape[-1]))
            found[:, seen.rows] = values
    if found is None:
        raise ArgumentError("no pairs to look at: the sample is empty")
    return found


def drawn_layers(layers: int) -> list[int]:
    """The r drawn of a model of so many layers: the first layer's, the middle one, the last."""
    return sorted({1, (layers + 1) // 2, layers})


def _planes(
    items: Items, states: FloatArray, context: Context
) -> dict[tuple[str, str, int], Plane]:
    methods = {"pca": pca, "tsne": lambda rows: tsne(rows, context.seed)}
    return {
        (method, name, number): methods[method](states[number][one.rows])
        for method in context.choose(("pca",), ("pca", "tsne"))
        for name, one in items.labellings.items()
        for number in drawn_layers(len(states) - 1)
        if np.ptp(states[number][one.rows], axis=0).any()  # of equal vectors there is no picture
    }
