"""How much of the heads chosen for a behaviour comes back over other queries of discovery."""

from __future__ import annotations

import numpy as np

from qt_bert.models.heads import Shape
from qt_bert.probes.behaviour.carried import Carried
from qt_bert.probes.behaviour.contests import CARRIES, LeftOut
from qt_bert.probes.naming import Rule, known_stability, stability
from qt_bert.results.probe import Stability
from qt_bert.stats.arrays import FloatArray, ratio


def stable_sets(
    found: Carried, tested: tuple[LeftOut, ...], shape: Shape, seed: int
) -> dict[str, Stability]:
    """Of every set, by its name; heads were left out on discovery alone, so nowhere else."""
    return known_stability(
        **{
            one.name: stability(
                by_change(found, one.phenomenon, shape, helps=one.way == CARRIES),
                one.heads,
                len(found.counts[found.phenomena.index(one.phenomenon)]),
                seed=seed,
            )
            for one in tested
        }
    )


def by_change(found: Carried, phenomenon: str, shape: Shape, *, helps: bool) -> Rule:
    """Heads by how much worse (`helps`), or better, the model does on a phenomenon without each."""
    column = found.phenomena.index(phenomenon)
    sums = found.sums[column] * (-1 if helps else 1)
    heads = [variant.heads[0] for variant in found.variants]

    def score(weights: FloatArray) -> FloatArray:
        changes = ratio(weights @ sums, (weights @ found.counts[column])[:, None])
        scores = np.full((len(weights), *shape.size), np.nan)
        for row, head in enumerate(heads):
            scores[:, head.layer, head.head] = changes[:, row]
        return scores

    return score
