"""A finished sweep with the model's labels, and the effects of its variants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.variant import Variant
from qt_bert.encoder import ModelLabels
from qt_bert.probes.common.draws import Estimate


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
