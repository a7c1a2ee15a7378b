"""Permuted labels: what an eraser finds to erase where there is nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qt_bert.probes.layers_reading import Column, Examples, Places, Task
from qt_bert.stats.arrays import IntArray


def permuted(task: Task, draws: int, seed: int, first: int = 0) -> list[Column]:
    """The labels of `task` permuted, `draws` times; the columns are numbered from `first`.

    Characters and words change labels within their text, texts among all texts.
    """
    rng = np.random.default_rng([seed, 8])
    return [
        Column(
            task, first + draw, *(one.labels[_order(one, rng)] for one in (task.fit, task.check))
        )
        for draw in range(draws)
    ]


def _order(examples: Examples, rng: np.random.Generator) -> IntArray:
    """The place whose label each place gets."""
    places = examples.places
    if examples.kinds is None:  # a whole text
        return rng.permutation(len(places))
    # Places stand in the order of their texts, so that a shuffle within each keeps that order.
    return np.lexsort((rng.random(len(places)), places.text))


def on_dependents(task: Task) -> Task:
    """A task of arcs asked of the dependent word's mean alone; any other task as it is.

    An arc is read from both words and their product, which no map of single tokens can erase.
    """

    def first_word(places: Places) -> Places:
        return replace(places, unit="text", spans=places.spans[:, :1])

    if task.fit.places.unit != "edge":
        return task
    fit, check = (replace(one, places=first_word(one.places)) for one in (task.fit, task.check))
    return Task(fit, check)
