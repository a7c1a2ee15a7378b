"""Changes of the tested metric under the variants of one sweep, in points, with their resamples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.ablation.effect_metrics import OutputReader
from qt_bert.ablation.effect_table import EffectRow
from qt_bert.ablation.effects import Effects
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.variant import Variant
from qt_bert.encoder import ModelLabels
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import bootstrap_weights, resample
from qt_bert.probes.claims import POINT
from qt_bert.probes.common.controls import rank_p
from qt_bert.probes.common.draws import mean_over


@dataclass(frozen=True, eq=False)
class Figure:
    """A value and its resampled values [R]; NaN where the metric is not defined."""

    value: float
    samples: FloatArray

    def less(self, other: Figure) -> Figure:
        """The difference, resample by resample."""
        return Figure(self.value - other.value, self.samples - other.samples)

    def over(self, other: Figure) -> Figure:
        """The quotient; NaN where the divisor is not above 0."""
        below = np.array([other.value, *other.samples])
        above = np.array([self.value, *self.samples])
        found = np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)
        return Figure(float(found[0]), found[1:])

    def times(self, factor: float) -> Figure:
        """The same in another unit."""
        return Figure(self.value * factor, self.samples * factor)


@dataclass(frozen=True, eq=False)
class Changes:
    """The variants of a sweep by name; everything in points."""

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

    @property
    def metric(self) -> str:
        """What claims are made of: accuracy, or for a one-logit model pairwise accuracy."""
        return self.effects.tested[0]

    @cached_property
    def base(self) -> Figure:
        """The metric of the unmasked pass."""
        reader = OutputReader(self.folder.pairs, self.labels)
        plain = reader.read(self.folder.logits[0])
        weights = bootstrap_weights(
            reader.n_queries, self.resamples, self.seed, width=len(reader.pairs)
        )
        samples = resample([reader.estimator(self.metric, plain, plain)], weights)[0]
        value = self.effects.base(self.metric)
        return Figure(_number(value) / POINT, samples / POINT)

    def of(self, variant: Variant) -> Figure:
        """The change under one variant."""
        if variant.name not in self._known:
            samples = self.effects.resampled(self.folder.row(variant.name), self.metric)
            found = Figure(float(self.values([variant])[0]), samples / POINT)
            self._known[variant.name] = found
        return self._known[variant.name]

    def values(self, variants: Iterable[Variant]) -> FloatArray:
        """The change under each variant, without resamples."""
        rows = [self._rows[variant.name, self.metric] for variant in variants]
        return np.array([_number(row.absolute) / POINT for row in rows])

    def mean(self, variants: Sequence[Variant]) -> Figure | None:
        """The mean change over random draws, which its resamples draw among, too; None for none."""
        if not variants:
            return None
        stacked = np.stack([self.of(variant).samples for variant in variants])
        samples = mean_over(stacked, self.seed, variants[0].name)
        return Figure(float(self.values(variants).mean()), samples)

    def against(
        self, target: Variant, controls: Sequence[Variant], *, below: bool = True
    ) -> tuple[Figure, float | None]:
        """The target's change less the controls' mean, and its rank among them; alone without any."""
        change, mean = self.of(target), self.mean(controls)
        p = rank_p(change.value, self.values(controls), below=below)
        return (change if mean is None else change.less(mean)), p

    @cached_property
    def _known(self) -> dict[str, Figure]:
        return {}

    @cached_property
    def _rows(self) -> dict[tuple[str, str], EffectRow]:
        return {(row.name, row.metric): row for row in self.folder.effects}


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
