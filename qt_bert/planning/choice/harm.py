"""Heads without which the model does better: found on discovery, confirmed on validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.families import MaskOf
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.heads import Head
from qt_bert.evaluation import METRICS, q_values
from qt_bert.evaluation.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.pairs import Pair
from qt_bert.planning.choice.losses import Losses
from qt_bert.planning.choice.runs import losses
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

LOSS = "nll"


@dataclass(frozen=True)
class Harmful:
    """`candidates` gain on discovery by q < 0.05 over all heads, those `confirmed` gain on validation
    by q < 0.05 over the candidates too; both the largest gain on discovery first.

    `gains`: candidate → how much better `metric` gets on discovery and on validation. The metric is
    the mean −log p(label), or where labels and model have none the first that effects are tested by.
    """

    metric: str
    candidates: tuple[Head, ...]
    confirmed: tuple[Head, ...]
    gains: dict[Head, tuple[float, float]]


def harmful_heads(
    scorer: Scorer,
    validation: Sequence[Pair],
    first: Losses,
    *,
    mask: MaskOf,
    seed: int = 0,
    work: Path | None = None,
    shown: Progress = silent,
) -> Harmful:
    """Which heads harm. `first` is what `single_losses` gave on discovery.

    p by swaps of whole queries (`Effects.p_values`), q by Benjamini and Hochberg. The candidates alone
    are run on `validation`; `work` keeps that sweep, `shown` counts variants × pairs. Raises
    ArgumentError for pairs that cannot be judged.
    """
    effects = _effects(scorer, first, seed)
    metric = LOSS if effects.base(LOSS) is not None else effects.tested[0]
    found = _gaining(effects, metric, first.names)
    candidates = sorted(found, key=lambda name: -found[name])
    if not candidates:
        return Harmful(metric, (), (), {})
    variants = [Variant(name, (mask([Head.parse(name)]),), "plan") for name in candidates]
    again = losses(scorer, validation, variants, work=work, name="harmful", shown=shown)
    tested = _effects(scorer, again, seed)
    confirmed = _gaining(tested, metric, again.names)
    return Harmful(
        metric,
        tuple(map(Head.parse, candidates)),
        tuple(Head.parse(name) for name in candidates if name in confirmed),
        {
            Head.parse(name): (found[name], _gain(tested, 1 + place, metric))
            for place, name in enumerate(candidates)
        },
    )


def _effects(scorer: Scorer, measured: Losses, seed: int) -> Effects:
    labels = scorer.checkpoint.settings.labels
    return Effects(measured.logits, measured.pairs, labels, resamples=0, seed=seed)


def _gaining(effects: Effects, metric: str, names: Sequence[str]) -> dict[str, float]:
    """Variant → gain, of those that gain by q < 0.05 over all of them."""
    rows = range(1, effects.n_variants)
    q = q_values(effects.p_values(rows, metric))
    gains = {row: _gain(effects, row, metric) for row in rows}
    return {
        names[row]: gains[row]
        for row, one in zip(rows, q, strict=True)
        if one is not None and one < FALSE_DISCOVERY_RATE and gains[row] > 0
    }


def _gain(effects: Effects, row: int, metric: str) -> float:
    """How much better the metric is under a variant; NaN where it is not defined."""
    change = effects.change(row, metric)
    if change is None:
        return float("nan")
    return change if METRICS[metric].direction == "higher" else -change
