"""Where the ladder of *all* steps down, and how far that is from the layers of the matching heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.models.heads import Head
from qt_bert.probes.ladder.losses import Losses
from qt_bert.probes.ladder.measures import ORDER
from qt_bert.probes.ladder.rungs import Ladder
from qt_bert.probes.naming import Estimate
from qt_bert.stats.arrays import FloatArray

NEAR = 1.0
"""Layers between the step and the middle of the heads that still count as agreement."""


@dataclass(frozen=True, eq=False)
class Step:
    """The layer whose cut brings the loss over half of the whole, and that of the largest single step.

    Both are NaN where cutting all layers loses nothing that could be told from 0. `middle` is the
    median layer of the matching heads, None where there are none; `by_chance` the share of all
    layers that lie within NEAR of it.
    """

    half: Estimate
    largest: Estimate
    middle: float | None
    by_chance: float | None

    @property
    def apart(self) -> Estimate | None:
        """Half-way layer less the heads' median layer."""
        if self.middle is None:
            return None
        return Estimate(self.half.value - self.middle, self.half.samples - self.middle)


def step_of(losses: Losses, ladder: Ladder, heads: Sequence[Head]) -> Step:
    """The step of ρ under *all*, a ladder that has every rung, beside `heads`."""
    stacked = losses.stack(ladder, ORDER)
    whole = losses.loss(ladder.whole, ORDER)
    if stacked is None or whole is None or whole.low is None or not whole.low > 0:
        stacked = np.full((len(ladder.rungs) + 1, 1 + losses.resamples), np.nan)
    half, largest = half_way(stacked), largest_step(stacked)
    layers = np.arange(len(ladder.rungs))
    middle = float(np.median([head.layer for head in heads])) if heads else None
    near = None if middle is None else float((np.abs(layers - middle) <= NEAR).mean())
    return Step(
        Estimate(float(half[0]), half[1:]), Estimate(float(largest[0]), largest[1:]), middle, near
    )


def half_way(losses: FloatArray) -> FloatArray:
    """The first layer whose cut brings the loss to half of the whole, of losses [n + 1, R]: [R].

    Row l is rung l. NaN where the whole loss is not above 0.
    """
    whole = losses[-1]
    with np.errstate(invalid="ignore"):
        layer = (losses[1:] >= whole / 2).argmax(axis=0)
        return np.where(whole > 0, layer, np.nan)


def largest_step(losses: FloatArray) -> FloatArray:
    """The layer whose cut adds most to the loss, in the same way; the lowest among equals."""
    with np.errstate(invalid="ignore"):
        return np.where(losses[-1] > 0, np.diff(losses, axis=0).argmax(axis=0), np.nan)
