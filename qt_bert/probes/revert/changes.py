"""What the sweep's variants change of the order and the accuracy of the grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.probes.controls import OfSweep, rank_p
from qt_bert.probes.naming import Estimate, mean_over
from qt_bert.probes.shift.measures import MEASURES, OWN_ORDER, Measure

METRICS = ("spearman", "accuracy")


@dataclass(frozen=True, eq=False)
class Changes(OfSweep):
    """One set of pairs, called `name`; every change is in the unit of `measure`.

    A model of one logit has its ρ with the scores that it gives untouched, and no accuracy.
    """

    name: str

    def measure(self, metric: str) -> Measure:
        """What a metric is called here, and its unit."""
        own = metric == "spearman" and self.labels.logits == 1
        return OWN_ORDER if own else MEASURES[metric]

    def of(self, variant: Variant, metric: str = "spearman") -> Estimate | None:
        """The change under a variant; None where these labels define none."""
        return self.estimate_of(variant, metric, self.measure(metric).scale)

    def value(self, variant: Variant, metric: str = "spearman") -> float:
        """The change alone, without resamples; NaN where there is none."""
        change = self.effects.change(self.folder.row(variant.name), metric)
        return float("nan") if change is None else change / self.measure(metric).scale

    def mean(self, variants: Sequence[Variant], metric: str = "spearman") -> Estimate | None:
        """The mean change over random draws, which its resamples draw among too; None without one."""
        found = [self.of(variant, metric) for variant in variants]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        samples = mean_over(np.stack([one.samples for one in known]), self.seed, variants[0].name)
        return Estimate(float(np.mean([one.value for one in known])), samples)

    def against(
        self, target: Variant, controls: Sequence[Variant], metric: str = "spearman"
    ) -> tuple[Estimate | None, float | None]:
        """The target's change less the controls' mean, and its rank among them; nothing without any."""
        change, mean = self.of(target, metric), self.mean(controls, metric)
        if change is None or mean is None:
            return None, None
        values = np.array([self.value(one, metric) for one in controls])
        return change.less(mean), rank_p(change.value, values)
