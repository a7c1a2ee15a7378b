"""Targeted heads against random ones, and the effects of a finished sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.families import MaskOf, layer_matched, random_sets
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, Shape, checked_heads
from qt_bert.probes.naming import Estimate
from qt_bert.stats.arrays import FloatArray

# Targeted heads against random ones: as many in the same layers, as many anywhere, or as loud ones.


NEAREST = 8
"""A head's loudness-matched control is drawn among so many heads of the nearest norm."""


def zeroed(heads: Iterable[Head]) -> Intervention:
    """Heads left out as the article does it."""
    return HeadMask(tuple(heads))


@dataclass(frozen=True)
class Contest:
    """A target set and its controls, as variants of one sweep.

    `matched` has as many heads in each layer, outside the target; `free` as many anywhere; `loud`,
    where norms were given, heads of the nearest mean norm. A control that cannot be drawn (too few
    heads outside) is empty, and nothing is claimed against it.
    """

    target: Variant
    matched: tuple[Variant, ...] = ()
    free: tuple[Variant, ...] = ()
    loud: tuple[Variant, ...] = ()

    @property
    def variants(self) -> list[Variant]:
        """All of them, the target first."""
        return [self.target, *self.matched, *self.free, *self.loud]


def contest(
    name: str,
    heads: Sequence[Head],
    shape: Shape,
    *,
    matched: int,
    free: int,
    seed: int,
    within: Iterable[Head] | None = None,
    norms: FloatArray | None = None,
    mask: MaskOf = zeroed,
) -> Contest:
    """The variants for `heads`, called `name`, with so many draws of each control.

    `within` limits the matched draws; `norms` [layers, heads] adds as many loudness-matched ones.
    Raises ArgumentError for heads that the model lacks.
    """
    target = Variant(name, (mask(checked_heads(heads, shape)),), "target")
    pool = shape.all_heads if within is None else list(within)
    drawn: list[Variant] = []
    if matched and _can_match(heads, pool):
        drawn = layer_matched(shape, mask, heads, matched, seed, pool, f"{name}:")
    loud = [] if norms is None else _loud(name, heads, norms, matched, seed, mask)
    anywhere = random_sets(shape, mask, len(heads), free, seed) if free else []
    return Contest(
        target,
        tuple(drawn),
        tuple(replace(one, name=f"{name}:{one.name}", family="free") for one in anywhere),
        tuple(loud),
    )


def _can_match(heads: Sequence[Head], pool: Iterable[Head]) -> bool:
    """Whether every layer has as many heads outside the set as in it."""
    wanted = Counter(head.layer for head in set(heads))
    outside = Counter(head.layer for head in set(pool) - set(heads))
    return all(outside[layer] >= count for layer, count in wanted.items())


def rank_p(value: float, controls: FloatArray, *, below: bool = True) -> float | None:
    """(1 + random sets at least as extreme) / (1 + draws); None without a control or a value.

    A control whose value is not defined (NaN) counts as extreme.
    """
    if not controls.size or not np.isfinite(value):
        return None
    harmless = controls > value if below else controls < value
    return float((1 + (~harmless).sum()) / (1 + controls.size))


def _loud(
    name: str, heads: Sequence[Head], norms: FloatArray, draws: int, seed: int, mask: MaskOf
) -> list[Variant]:
    """Sets of heads outside `heads`, each drawn among those nearest to one of them in log norm."""
    target, logs = set(heads), np.log(np.maximum(norms, 1e-12))
    there = (Head(*place) for place in np.ndindex(*norms.shape) if norms[place] > 0)
    others = [head for head in there if head not in target]
    if len(others) < len(target):
        return []
    variants = []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        taken: set[Head] = set()
        for head in heads:
            left = [one for one in others if one not in taken]
            left.sort(key=_nearness(logs, head))
            taken.add(left[int(rng.integers(min(NEAREST, len(left))))])
        variants.append(
            Variant(f"{name}:loud#{draw:02d}", (mask(sorted(taken)),), "loud", draw, seed)
        )
    return variants


def _nearness(logs: FloatArray, head: Head) -> Callable[[Head], float]:
    return lambda one: abs(float(logs[one] - logs[head]))


# A finished sweep with the model's labels, and the effects of its variants.


@dataclass(frozen=True, eq=False)
class OfSweep:
    """What a probe's changes under the variants of one sweep are computed from."""

    folder: SweepFolder
    labels: ModelLabels
    resamples: int
    seed: int

    @cached_property
    def effects(self) -> Effects:
        """The sweep's effects; their resamples are the same for every variant."""
        folder = self.folder
        return Effects(
            folder.logits, folder.pairs, self.labels, resamples=self.resamples, seed=self.seed
        )

    def estimate_of(self, variant: Variant, metric: str, scale: float) -> Estimate | None:
        """A variant's change of a metric, in units of `scale`; None where these labels define none."""
        key = variant.name, metric
        if key not in self._known:
            row = self.folder.row(variant.name)
            change = self.effects.change(row, metric)
            self._known[key] = (
                None
                if change is None
                else Estimate(change / scale, self.effects.resampled(row, metric) / scale)
            )
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[str, str], Estimate | None]:
        return {}
