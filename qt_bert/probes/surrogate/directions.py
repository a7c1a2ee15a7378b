"""In which direction each head is read: the one in which `matching` scored it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qt_bert.models.heads import Head, Shape
from qt_bert.probes.matching_cells import DIRECTIONS
from qt_bert.results.probe import ProbeResult
from qt_bert.stats.arrays import IntArray


def directions_of(found: ProbeResult, shape: Shape) -> IntArray:
    """Numbers of DIRECTIONS [layers, heads], of what `matching` found.

    A head's `score` is its ratio in the direction that was the better one on discovery, so the
    direction whose own ratio it equals is meant; nothing is chosen on validation. A head without a
    score is read in the first.
    """
    chosen = np.zeros(shape.size, np.int64)
    for one in found.heads:
        chosen[Head.parse(one.head)] = _direction(one.scores)
    return chosen


def _direction(scores: Mapping[str, float | None]) -> int:
    score = scores.get("score")
    for number, name in enumerate(DIRECTIONS):
        if score is not None and scores.get(name) == score:
            return number
    return 0
