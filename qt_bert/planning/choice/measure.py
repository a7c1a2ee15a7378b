"""What removals change, with paired intervals over queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.families import MaskOf
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import RESAMPLES
from qt_bert.pairs import Pair
from qt_bert.planning.choice.runs import logits, parts_of
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

GRADED_METRICS = ("spearman", "qwk", "accuracy", "macro_f1", "log_loss")
SCORE_METRICS = ("spearman", "pairwise_accuracy", "ndcg_at_3")


@dataclass(frozen=True)
class Removal:
    """Heads and whole blocks (layers, by number) that are left out together; neither: the model."""

    heads: tuple[Head, ...] = ()
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Change:
    """What a removal changes of one metric.

    `base` is the whole model's figure, `value` that without what was removed, `absolute` their
    difference with its paired 95 % interval; `samples` [R] are the differences under resamples of
    the queries, the same resamples for all removals and metrics.
    """

    base: float
    value: float
    absolute: float
    ci_low: float | None
    ci_high: float | None
    samples: FloatArray = field(repr=False)


Changes = dict[str, Change]
"""By metric."""


def changes(
    scorer: Scorer,
    pairs: Sequence[Pair],
    removals: Sequence[Removal],
    *,
    mask: MaskOf,
    metrics: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    work: Path | None = None,
    name: str = "changes",
    shown: Progress = silent,
) -> list[Changes]:
    """What each removal changes, in their order, measured in one sweep over `pairs`.

    `metrics` are names of `Effects`; by default Spearman's ρ, QWK, accuracy, macro-F1 and the log loss,
    or for a model of one logit ρ against its unmasked score, pairwise accuracy and NDCG@3. Those that
    labels and model do not define are not among what is returned. `work` / `name` is the folder in
    which the sweep is kept and resumed; `shown` counts variants × pairs.

    Raises ArgumentError for no pairs, unknown metrics, and heads or layers that the model lacks.
    """
    variants = [
        Variant(f"removal {place}", parts_of(one.heads, one.blocks, mask), "plan")
        for place, one in enumerate(removals)
    ]
    cut = [variant for variant in variants if variant.parts]
    found = logits(scorer, pairs, cut, work=work, name=name, shown=shown)
    labels = scorer.checkpoint.settings.labels
    effects = Effects(found, pairs, labels, resamples=resamples, draws=0, seed=seed)
    if metrics is None:
        metrics = SCORE_METRICS if labels.logits == 1 else GRADED_METRICS
    defined = [metric for metric in metrics if effects.base(metric) is not None]
    rows = [1 + cut.index(variant) if variant.parts else 0 for variant in variants]
    return [changes_of(effects, row, defined) for row in rows]


def changes_of(effects: Effects, row: int, metrics: Sequence[str]) -> Changes:
    """What one row of the effects changes of metrics that are defined for row 0."""
    samples = effects.resampled_by(row, metrics) if metrics else ()
    found: Changes = {}
    for metric, drawn in zip(metrics, samples, strict=True):
        base, value = effects.base(metric), effects.value(row, metric)
        if base is None or value is None:
            continue
        low, high = effects.interval(drawn) or (None, None)
        found[metric] = Change(base, value, value - base, low, high, drawn)
    return found
