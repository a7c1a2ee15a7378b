"""What the model loses without the heads that know word ends, beside layer-matched and free draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from qt_bert.ablation.asked import reference_means
from qt_bert.ablation.effects import Effects
from qt_bert.ablation.masks import HeadMask, MeanContexts, Mode
from qt_bert.ablation.run_sweep import run_sweep
from qt_bert.ablation.variant import Part
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import interval_or_reason
from qt_bert.pairs import Pair
from qt_bert.probes.claims import POINT
from qt_bert.probes.common.controls import Contest, contest, rank_p
from qt_bert.probes.common.norms import head_norms
from qt_bert.probes.common.sample import for_model
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.split import reference
from qt_bert.results import Text
from qt_bert.results.metric_names import metric_name

MOST_HEADS = 5
"""So few of the named heads are left out together that layer-matched sets remain to draw."""
QUICK_PAIRS = 24
MATCHED, FREE = (99, 999), (20, 100)


@dataclass(frozen=True, eq=False)
class Loss:
    """The change of the metric in points; `value`: less its mean over a control's draws; p by rank.

    `samples` [R] are its values under resampled queries. Without a control `value` is NaN.
    """

    change: float
    value: float
    samples: FloatArray
    p: float | None
    draws: int

    @property
    def of_controls(self) -> float:
        """The controls' mean change; NaN without any."""
        return self.change - self.value


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`heads` left out together; `losses` by mode and control, as in `zero:matched`."""

    heads: tuple[Head, ...]
    losses: dict[str, Loss]
    metric: str
    base: float
    pairs: list[Pair]
    n_queries: int

    @property
    def metric_name(self) -> Text:
        """The metric's name in both languages."""
        return metric_name(self.metric)

    def interval(self, name: str) -> tuple[float, float] | None:
        """The central 95 % of one of `losses`; None where it cannot be told."""
        low, high, _ = interval_or_reason(self.losses[name].samples, self.n_queries)
        return None if low is None or high is None else (low, high)


def leave_out(named: Sequence[Head], context: ProbeContext) -> LeftOut:
    """Sweep the best of the `named` heads and their controls on validation; under --full every mode."""
    scorer = context.model
    heads = tuple(named[:MOST_HEADS])
    pairs = for_model(context.validation, QUICK_PAIRS, context)
    contests = _contests(heads, context)
    folder = run_sweep(
        scorer,
        pairs,
        [variant for one in contests.values() for variant in one.variants],
        context.work / "leaving_out",
        pairs_ref=reference(context.files.pairs, pairs),
        resamples=context.resamples,
        seed=context.seed,
        resume=True,
        label=f"{context.label}: heads left out",
    )
    context.guards["leaving_out"] = folder.record.guards
    labels = scorer.checkpoint.settings.labels
    effects = Effects(folder.logits, pairs, labels, resamples=context.resamples, seed=context.seed)
    metric = effects.tested[0]
    losses: dict[str, Loss] = {}
    for mode, one in contests.items():
        for name, controls in (("matched", one.matched), ("free", one.free), ("loud", one.loud)):
            if controls or name == "matched":
                rows = [folder.row(variant.name) for variant in (one.target, *controls)]
                losses[f"{mode}:{name}"] = _loss(effects, metric, rows)
    base = effects.base(metric)
    nothing = float("nan")
    return LeftOut(
        heads, losses, metric, nothing if base is None else base, pairs, effects.n_queries
    )


def _contests(heads: Sequence[Head], context: ProbeContext) -> dict[str, Contest]:
    scorer = context.model
    shape = scorer.checkpoint.shape
    matched, free = context.choose(*MATCHED), context.choose(*FREE)
    draw = partial(contest, heads=heads, shape=shape, matched=matched, free=free, seed=context.seed)
    if not context.full:
        return {"zero": draw("word_ends:zero")}
    norms = head_norms(scorer, context.discovery)
    means = reference_means(scorer, context.discovery)
    modes: tuple[Mode, ...] = ("zero", "mean")
    return {
        mode: draw(f"word_ends:{mode}", norms=norms, mask=partial(_mask, mode, means))
        for mode in modes
    }


def _mask(mode: Mode, means: MeanContexts, heads: Iterable[Head]) -> Part:
    return HeadMask(tuple(heads), mode, means if mode == "mean" else None)


def _loss(effects: Effects, metric: str, rows: Sequence[int]) -> Loss:
    """`rows` are those of the target and then of its controls."""
    changes = np.array(
        [np.nan if (one := effects.change(row, metric)) is None else one for row in rows]
    )
    target, controls = changes[0] / POINT, changes[1:] / POINT
    if not controls.size:
        return Loss(float(target), float("nan"), np.empty(0), None, 0)
    samples = effects.resampled(rows[0], metric) / POINT
    others = np.zeros_like(samples)
    for row in rows[1:]:
        others += effects.resampled(row, metric) / POINT / len(controls)
    return Loss(
        float(target),
        float(target - controls.mean()),
        samples - others,
        rank_p(float(target), controls),
        len(controls),
    )
