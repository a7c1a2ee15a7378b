"""What rungs cost on one set of pairs: losses with their resamples, and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qt_bert.ablation.effects import Effects, OutputReader
from qt_bert.ablation.interventions import Variant
from qt_bert.probes.controls import OfSweep
from qt_bert.probes.ladder.measures import measure
from qt_bert.probes.ladder.rungs import Ladder
from qt_bert.probes.naming import Estimate
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.comparison import swap_p_values
from qt_bert.stats.judgements import known
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.tests import q_values
from qt_bert.text import Text


class Loss(NamedTuple):
    """A loss and the ends of its interval; None where there is none."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Losses(OfSweep):
    """One set of pairs, called `name`, under all that was swept on it.

    Losses are in the unit of `measures.measure`, above 0 where the cut makes the grades worse; `draws`
    is the least number of swaps of a test.
    """

    name: Text
    draws: int

    def change(self, variant: Variant, metric: str) -> Estimate | None:
        """Value less that of the uncut model; None where these labels define none."""
        return self.estimate_of(variant, metric, measure(metric, self.labels).scale)

    def estimate(self, variant: Variant, metric: str) -> Estimate | None:
        """The loss with its resamples: the change, its sign turned."""
        change = self.change(variant, metric)
        if change is None:
            return None
        return Estimate(0.0 - change.value, 0.0 - change.samples)  # times(-1) would write −0.0

    def loss(self, variant: Variant, metric: str) -> Loss | None:
        """The loss with its interval over queries."""
        found = self.estimate(variant, metric)
        return None if found is None else self._told(np.append(found.value, found.samples))

    def stack(self, ladder: Ladder, metric: str) -> FloatArray | None:
        """Losses of rungs 0, 1, …, n [n + 1, 1 + R]: as measured, then resampled.

        None where a rung has none; of a ladder that has every rung.
        """
        found = [self.estimate(variant, metric) for variant in ladder.rungs.values()]
        rows = [np.concatenate([[one.value], one.samples]) for one in found if one is not None]
        if len(rows) < len(found):
            return None
        return np.stack([np.zeros(len(rows[0])), *rows])

    def steps(self, ladder: Ladder, metric: str) -> list[Loss]:
        """What each rung of `stack` loses beyond the one below it; empty where there is no stack."""
        stacked = self.stack(ladder, metric)
        return [] if stacked is None else [self._told(one) for one in np.diff(stacked, axis=0)]

    def q(self, ladder: Ladder, metric: str) -> dict[int, float | None]:
        """Rung → q of its change; the family is the ladder. Predictions of whole queries are swapped."""
        rows = [self.folder.row(variant.name) for variant in ladder.rungs.values()]
        folder = self.folder
        effects = Effects(
            folder.logits, folder.pairs, self.labels, resamples=0, draws=self.draws, seed=self.seed
        )
        return dict(zip(ladder.rungs, q_values(effects.p_values(rows, metric)), strict=True))

    def swapped_p(self, one: Variant, other: Variant, metric: str) -> float | None:
        """Two-sided p of the difference between two cuts, by the same swaps."""
        reader = OutputReader(self.folder.pairs, self.labels)
        plain = reader.read(self.folder.logits[0])
        both = (
            reader.read(self.folder.logits[self.folder.row(variant.name)], plain)
            for variant in (other, one)
        )
        first, second = (known(outputs.judgements) for outputs in both)
        found = swap_p_values(first, [second], [METRICS[metric]], draws=self.draws, seed=self.seed)
        return None if np.isnan(found[0, 0]) else float(found[0, 0])

    def _told(self, values: FloatArray) -> Loss:
        """Of a value and its resamples [1 + R]."""
        low, high = self.effects.interval(values[1:]) or (None, None)
        return Loss(float(values[0]), low, high)
