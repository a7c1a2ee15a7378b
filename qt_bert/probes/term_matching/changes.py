"""Changes of the tested metric under the variants of one sweep, in points, with their resamples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.ablation.effect_table import EffectRow
from qt_bert.ablation.variant import Variant
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.claims import POINT
from qt_bert.probes.common.controls import rank_p
from qt_bert.probes.common.draws import Estimate, mean_over
from qt_bert.probes.common.of_sweep import OfSweep


@dataclass(frozen=True, eq=False)
class Changes(OfSweep):
    """The variants of a sweep by name; everything in points."""

    @property
    def metric(self) -> str:
        """What claims are made of: accuracy, or for a one-logit model pairwise accuracy."""
        return self.effects.tested[0]

    @cached_property
    def base(self) -> Estimate:
        """The metric of the unmasked pass."""
        [samples] = self.effects.resampled_base([self.metric])
        value = self.effects.base(self.metric)
        return Estimate(_number(value) / POINT, samples / POINT)

    def of(self, variant: Variant) -> Estimate:
        """The change under one variant."""
        if variant.name not in self._seen:
            samples = self.effects.resampled(self.folder.row(variant.name), self.metric)
            found = Estimate(float(self.values([variant])[0]), samples / POINT)
            self._seen[variant.name] = found
        return self._seen[variant.name]

    def values(self, variants: Iterable[Variant]) -> FloatArray:
        """The change under each variant, without resamples."""
        rows = [self._rows[variant.name, self.metric] for variant in variants]
        return np.array([_number(row.absolute) / POINT for row in rows])

    def mean(self, variants: Sequence[Variant]) -> Estimate | None:
        """The mean change over random draws, which its resamples draw among, too; None for none."""
        if not variants:
            return None
        stacked = np.stack([self.of(variant).samples for variant in variants])
        samples = mean_over(stacked, self.seed, variants[0].name)
        return Estimate(float(self.values(variants).mean()), samples)

    def against(
        self, target: Variant, controls: Sequence[Variant], *, below: bool = True
    ) -> tuple[Estimate, float | None]:
        """The target's change less the controls' mean, and its rank among them; alone without any."""
        change, mean = self.of(target), self.mean(controls)
        p = rank_p(change.value, self.values(controls), below=below)
        return (change if mean is None else change.less(mean)), p

    @cached_property
    def _seen(self) -> dict[str, Estimate]:
        return {}

    @cached_property
    def _rows(self) -> dict[tuple[str, str], EffectRow]:
        return {(row.name, row.metric): row for row in self.folder.effects}


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
