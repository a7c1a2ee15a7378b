"""What a rung costs is told in these metrics, and how little does not count."""

from __future__ import annotations

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels
from qt_bert.probes.claims import POINT, POINTS
from qt_bert.probes.shift.measures import MEASURES, OWN_ORDER, Measure
from qt_bert.results.quantities import metric_name
from qt_bert.stats.multiplicity import NO_EFFECT_ACCURACY
from qt_bert.text import Text

ORDER = "spearman"
EXPECTED = "expected_grade"
QUALITY = ("accuracy", "pairwise_accuracy", ORDER)
"""The first of these that model and labels define is what losses are judged by."""

LEAST_LOSS = NO_EFFECT_ACCURACY
"""Two points, or 0.02 of ρ: a rung that loses less is free."""


def measure(metric: str, labels: ModelLabels) -> Measure:
    """What a metric is called here, and its unit."""
    if metric == ORDER and labels.logits == 1:
        return OWN_ORDER
    if metric == EXPECTED:
        if labels.logits == 1:
            return Measure(Text("平均分数", "mean score"), "", 1.0)
        if labels.grades is None:
            return Measure(Text("平均期望档次", "mean expected level"), "", 1.0)
        return Measure(Text("平均期望等级", "mean expected grade"), "", 1.0)
    if metric == "pairwise_accuracy":
        return Measure(metric_name(metric), POINTS, POINT)
    return MEASURES[metric]


def quality_of(labels: ModelLabels, *samples: list[Pair]) -> str:
    """The first of QUALITY that the model has and all samples define.

    One logit has no accuracy, and none of pairs of titles where no query has two different labels.
    """
    if labels.logits > 1:
        return QUALITY[0]
    return QUALITY[1] if all(_has_order(pairs, labels) for pairs in samples) else QUALITY[2]


def _has_order(pairs: list[Pair], labels: ModelLabels) -> bool:
    """Whether pairwise accuracy is defined on the pairs, whatever the outputs."""
    logits = np.zeros((1, len(pairs), labels.logits), np.float32)
    return Effects(logits, pairs, labels, resamples=0, draws=0).base(QUALITY[1]) is not None
