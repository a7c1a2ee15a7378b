"""The maps of one property: its eraser in each layer, and the maps that it must be worse than."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.weights import AffineMap
from qt_bert.probes.layers_reading import Column, Moments
from qt_bert.probes.usage.leace import covariance, leace, removed_trace
from qt_bert.probes.usage.subspaces import Space


@dataclass(frozen=True, eq=False)
class Erasers:
    """At one place rn: the eraser of a property, and its controls.

    `permuted`: erasers of permuted labels. `random`: projections off random subspaces of the same
    rank, whose trace is within 10 % of the eraser's; those that could not be drawn are not there.
    `traces`: the variance that each takes, as a share of all, the eraser's first.
    """

    place: int
    eraser: AffineMap
    permuted: tuple[AffineMap, ...]
    random: tuple[AffineMap, ...]
    traces: tuple[float, ...]

    @property
    def rank(self) -> int:
        """How many directions the eraser takes."""
        return self.eraser.rank


def erasers(
    sums: Moments,
    layer: int,
    place: int,
    own: slice,
    others: Sequence[slice],
    draws: int,
    rng: np.random.Generator,
) -> Erasers:
    """From the sums of one layer: `own` are a property's targets, `others` those permuted."""
    spread = covariance(sums, layer)
    eraser = leace(sums, layer, own)
    trace, whole = removed_trace(eraser, spread), float(np.trace(spread))
    space = Space.of(spread, eraser.centre.numpy())
    drawn = [space.without(eraser.rank, trace, rng) for _ in range(draws)]
    random = tuple(one for one in drawn if one is not None)
    permuted = tuple(leace(sums, layer, block) for block in others)
    maps = (eraser, *permuted, *random)
    traces = tuple(removed_trace(one, spread) / whole if whole else 0.0 for one in maps)
    return Erasers(place, eraser, permuted, random, traces)


def blocks_of(columns: Sequence[Column], blocks: dict[str, slice], first: int) -> list[slice]:
    """Where the columns numbered from `first` on stand."""
    return [blocks[one.name] for one in columns if one.draw is not None and one.draw >= first]
