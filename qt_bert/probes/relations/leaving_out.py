"""What the tuned model loses without each head that looks along links, one at a time.

Kovaleva et al. 2019, 4.5: the head's attention is made uniform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import HeadMask, Mode
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import Pair
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.claims import POINT
from qt_bert.probes.split import reference
from qt_bert.probes.streams import for_model
from qt_bert.results.quantities import metric_name
from qt_bert.stats.intervals import CONFIDENCE
from qt_bert.text import Text

QUICK_PAIRS = 96
SWEEP = "linked_heads"
MODE: Mode = "uniform"


@dataclass(frozen=True)
class Loss:
    """What one head's absence changes, in points, and the ends of its interval.

    `wide` is the interval of one among all heads (Bonferroni): for the worst of them.
    """

    head: Head
    change: float
    interval: tuple[float, float] | None
    wide: tuple[float, float] | None


@dataclass(frozen=True)
class LeftOut:
    """Each head's loss; `metric` says of what, on `pairs`."""

    losses: tuple[Loss, ...]
    metric: str
    pairs: list[Pair]
    n_queries: int

    @property
    def metric_name(self) -> Text:
        """The metric in both languages."""
        return metric_name(self.metric)

    @property
    def worst(self) -> Loss:
        """The head whose absence costs most."""
        return min(self.losses, key=lambda loss: loss.change)

    def of_all(self, margin: float) -> tuple[float, float] | None:
        """The interval of the claim that no head's absence changes more than `margin`.

        One head is enough to refute it: where the whole `wide` interval of the worst lies beyond,
        that one. Else from the lowest end of any head's interval to the highest, so that the claim
        holds only where it holds of each.
        """
        wide = self.worst.wide
        if wide is not None and wide[1] < -margin:
            return wide
        ends = [loss.interval for loss in self.losses]
        known = [one for one in ends if one is not None]
        if len(known) < len(ends):
            return None
        return min(low for low, _ in known), max(high for _, high in known)


def leave_out(heads: Sequence[Head], context: Context) -> LeftOut | None:
    """One variant a head, on validation; None without heads, or where no metric is defined."""
    scorer = context.model
    there = set(scorer.checkpoint.shape.all_heads)
    variants = [
        Variant(str(head), (HeadMask((head,), MODE),), "single") for head in heads if head in there
    ]
    if not variants:
        return None
    pairs = for_model(context.validation, QUICK_PAIRS, context)
    folder = run_sweep(
        scorer,
        pairs,
        variants,
        context.work / SWEEP,
        pairs_ref=reference(context.files.pairs, pairs),
        resamples=None,
        seed=context.seed,
        resume=True,
        label=f"{context.label}: heads left out",
    )
    context.guards[SWEEP] = folder.record.guards
    labels = scorer.checkpoint.settings.labels
    effects = Effects(folder.logits, pairs, labels, resamples=context.resamples, seed=context.seed)
    if not effects.tested:
        return None
    metric = effects.tested[0]
    losses = tuple(
        loss
        for variant in variants
        if (loss := _loss(effects, folder.row(variant.name), metric, variant, len(variants)))
    )
    return LeftOut(losses, metric, pairs, effects.n_queries) if losses else None


def _loss(effects: Effects, row: int, metric: str, variant: Variant, among: int) -> Loss | None:
    change = effects.change(row, metric)
    if change is None:
        return None
    samples = effects.resampled(row, metric) / POINT
    ends = effects.interval(samples)
    tail = (1 - CONFIDENCE) / 2 / among
    wide = None if ends is None else tuple(np.nanquantile(samples, [tail, 1 - tail]).tolist())
    return Loss(variant.heads[0], change / POINT, ends, wide)
