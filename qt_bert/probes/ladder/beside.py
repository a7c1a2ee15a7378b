"""Figures that stand beside the claims, as findings without a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.ablation.interventions import Variant
from qt_bert.probes.ladder.losses import Losses
from qt_bert.probes.ladder.measures import ORDER, measure
from qt_bert.probes.ladder.study import Study
from qt_bert.probes.ladder.words import (
    APART_SOURCE,
    LADDER_SOURCE,
    LAYER_NUMBER,
    STEP_SOURCE,
    id_of,
    named,
)
from qt_bert.probes.naming import Estimate, beside_claims
from qt_bert.results.probe import Finding
from qt_bert.text import Text


def beside(study: Study) -> Iterator[Finding]:
    """The first layer's rungs on validation, every cut of all layers, the steps."""
    yield from _first_layer(study)
    yield from _whole(study)
    yield from _steps(study)


def _first_layer(study: Study) -> Iterator[Finding]:
    """The highest rung that was free on discovery, and the one above it, as validation has them."""
    found, losses = study.first.found, study.validation
    what, unit, _ = measure(study.metric, losses.labels)
    for id, layers in (("ladder_free", found), ("ladder_first_layer", found + 1)):
        loss = _loss(losses, study.all.rungs.get(layers), study.metric)
        if loss is not None:
            where = "L0" if layers == 1 else f"L0–L{layers - 1}"
            claim = Text(
                f"{where} 三种都切（all），{what.zh}的下降",
                f"The loss of {what.en} with all three cut in {where}",
            )
            yield beside_claims(id, claim, APART_SOURCE, loss, unit, losses.effects.n_queries)


def _whole(study: Study) -> Iterator[Finding]:
    """Every direction cut in all layers, in the quality that is judged by, and in ρ."""
    losses = study.validation
    for (direction, convention), ladder in study.ladders.items():
        for metric in dict.fromkeys((study.metric, ORDER)):
            loss = _loss(losses, ladder.whole, metric)
            if loss is None:
                continue
            (what, unit, _), cut = measure(metric, losses.labels), named(direction, convention)
            claim = Text(
                f"所有层：{cut.zh}，{what.zh}的下降",
                f"Cut in all layers: {cut.en}; the loss of {what.en}",
            )
            id = f"ladder_{id_of(direction, convention)}_{metric}"
            yield beside_claims(id, claim, LADDER_SOURCE, loss, unit, losses.effects.n_queries)


def _steps(study: Study) -> Iterator[Finding]:
    step, queries = study.step, study.validation.effects.n_queries
    for id, zh, en, found in (
        ("ladder_half_way", "下降过半", "brings the loss over half of the whole", step.half),
        ("ladder_largest_step", "下降得最多", "adds most to the loss", step.largest),
    ):
        claim = Text(
            f"三种都切（all）逐层往上，切到哪一层{zh}（ρ）",
            f"As *all* climbs, the layer whose cut {en} (ρ)",
        )
        yield beside_claims(id, claim, STEP_SOURCE, found, LAYER_NUMBER, queries)


def _loss(losses: Losses, variant: Variant | None, metric: str) -> Estimate | None:
    return None if variant is None else losses.estimate(variant, metric)
