"""Which heads carry which behaviour: what leaving each out changes of Δ, phenomenon by phenomenon.

Under --full every head by itself, else the heads of a layer together, of which none is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.families import layers, single
from qt_bert.ablation.interventions import Variant
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.behaviour.bands import Band
from qt_bert.probes.behaviour.cases import Case, Cases
from qt_bert.probes.behaviour.estimates import swap_p
from qt_bert.probes.behaviour.scores import are_better, towards
from qt_bert.probes.behaviour.swept import some_of_each, swept_deltas
from qt_bert.probes.controls import zeroed
from qt_bert.stats.arrays import BoolArray, FloatArray, sum_by
from qt_bert.stats.judgements import index_queries
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.stats.tests import q_values

QUICK_CASES = 12
"""Cases of each phenomenon that a quick map rests on."""
SWAPS, SWAPS_PER_CELL = 9_999, 40
"""At least so many draws, and so many for every cell: one true cell among all can reach q < 0.05."""
LEAST_OF_BAND = 0.2
"""A head is put forward only where its absence moves mean Δ by so much of the band, either way.

Of grades that is 0.05, a fifth of what a single case must part by to mean anything: less is real
where many cases agree, and changes what the model does with hardly any of them. Of levels and of one
logit it is a fifth of their own band.
"""
MOST = 5
"""As many heads as are tested together on validation."""


@dataclass(frozen=True, eq=False)
class Carried:
    """The mean change of Δ towards what is expected [variants, phenomena], in the unit of scores.

    Below 0 the model does worse on a phenomenon without these heads. `p` is two-sided, by exchanging
    the model with and without them within whole queries; `q` is over all cells. `least` is the
    smallest change that a marked cell may have. `n` cases. `sums` and `counts` hold, by phenomenon,
    each query's summed change [queries, variants] and its number of cases [queries].
    """

    variants: tuple[Variant, ...]
    phenomena: tuple[str, ...]
    change: FloatArray
    p: FloatArray
    q: FloatArray
    least: float
    n: int
    sums: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]

    @property
    def by_heads(self) -> bool:
        """Whether every variant leaves out a head by itself, and no whole layer."""
        return all(variant.family == "single" for variant in self.variants)

    @property
    def marked(self) -> BoolArray:
        """Cells with q < 0.05 and a change of `least` or more."""
        return np.asarray((self.q < FALSE_DISCOVERY_RATE) & (np.abs(self.change) >= self.least))

    def chosen(self, phenomenon: str, *, helps: bool) -> list[Head]:
        """At most five heads of marked cells, the largest change first.

        `helps`: those without which the model does worse; else those without which it does better.
        """
        column = self.phenomena.index(phenomenon)
        change = self.change[:, column] * (-1 if helps else 1)
        order = [row for row in np.argsort(-change, kind="stable") if change[row] > 0]
        heads = [self.variants[row].heads[0] for row in order if self.marked[row, column]]
        return heads[:MOST]


def carried(context: Context, cases: Cases, band: Band) -> Carried:
    """The map, on discovery."""
    shape = context.model.checkpoint.shape
    asked = cases.half("discovery")
    if context.full:
        variants = single(shape, zeroed)
    else:
        variants = layers(shape, zeroed)
        asked = some_of_each(asked, QUICK_CASES, context.seed)
    deltas = swept_deltas(context, cases, asked, variants, "discovery")
    return carried_by(variants, deltas, asked, LEAST_OF_BAND * band.value, context.seed)


def carried_by(
    variants: Sequence[Variant],
    deltas: FloatArray,
    cases: Sequence[Case],
    least: float,
    seed: int,
) -> Carried:
    """The map of `deltas` [1 + variants, cases], the plain model's first."""
    moved = towards(deltas[:1], deltas[1:], are_better(cases))
    phenomena = tuple(dict.fromkeys(case.phenomenon for case in cases))
    parts = [_by_query(moved, cases, phenomenon) for phenomenon in phenomena]
    change = np.stack([sums.sum(axis=0) / counts.sum() for sums, counts in parts], axis=1)
    swaps = max(SWAPS, SWAPS_PER_CELL * change.size)
    p = np.stack([swap_p(sums, swaps, seed) for sums, _ in parts], axis=1)
    q = np.array(q_values(list(p.ravel())), np.float64).reshape(p.shape)
    sums, counts = (tuple(one) for one in zip(*parts, strict=True))
    return Carried(tuple(variants), phenomena, change, p, q, least, len(cases), sums, counts)


def _by_query(
    moved: FloatArray, cases: Sequence[Case], phenomenon: str
) -> tuple[FloatArray, FloatArray]:
    """Of one phenomenon the sums of `moved` [variants, cases] by query, and each query's cases."""
    own = [row for row, case in enumerate(cases) if case.phenomenon == phenomenon]
    index, count = index_queries([cases[row].query for row in own])
    sums = np.stack([sum_by(index, values, count) for values in moved[:, own]], axis=1)
    return sums, sum_by(index, np.ones(len(own)), count)
