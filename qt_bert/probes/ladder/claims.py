"""What is claimed of the ladders; fixed before any run. All on validation, masked before the softmax.

`ladder_cls`. Estimand: the change of Spearman's ρ between expected grade and label (of one logit:
between its score and its uncut score) with C<T in all layers. Claim: no effect, within ± 0.02.

`ladder_direction`. Estimand: the same change with T<Q in all layers less that with Q<T in all
layers. Side: below, for MICE loses 13.5 of 63.2 by T<Q; Zhan et al. expect the reverse. Margin: 0,
no source measures both. p: the predictions under the two cuts swapped by whole queries.

`ladder_step`. Estimand: the half-way layer of *all* in ρ (the first whose cut brings the loss to half
of what cutting all layers costs) less the median layer of the matching heads that the causal probes
ask about, named on discovery. Claim: within ± 1 layer. No p: as with a claim of no effect, the whole
interval must lie within. Of ρ, for it moves with every pair, accuracy in jumps; half-way and not the
largest step, for the largest of n noisy steps lies anywhere when the ladder falls evenly. That one
stands beside it. Where the whole loss cannot be told from 0 there is no step and no verdict.
"""

from __future__ import annotations

from qt_bert.probes.claims import beyond, no_effect
from qt_bert.probes.ladder.beside import beside
from qt_bert.probes.ladder.measures import ORDER, measure
from qt_bert.probes.ladder.step import NEAR
from qt_bert.probes.ladder.study import Study
from qt_bert.probes.ladder.words import (
    CLS_CONCLUSIONS,
    CLS_SOURCE,
    DIRECTION_CONCLUSIONS,
    DIRECTION_SOURCE,
    LAYERS,
    STEP_CONCLUSIONS,
    STEP_SOURCE,
)
from qt_bert.results.probe import Finding
from qt_bert.stats.multiplicity import NO_EFFECT_SPEARMAN
from qt_bert.text import Text


def findings(study: Study) -> list[Finding]:
    """The three claims, then what stands beside them."""
    return [_cls(study), _direction(study), _step(study), *beside(study)]


def _cls(study: Study) -> Finding:
    losses = study.validation
    what, unit, _ = measure(ORDER, losses.labels)
    change = losses.change(study.ladders["C<T", "before"].whole, ORDER)
    return no_effect(
        "ladder_cls",
        Text(
            f"所有层里 [CLS] 都不看标题（C<T），{what.zh}不变",
            f"With [CLS] not reading the title in any layer (C<T), {what.en} stays",
        ),
        CLS_SOURCE,
        None if change is None else change.value,
        None if change is None else change.samples,
        n_queries=losses.effects.n_queries,
        margin=NO_EFFECT_SPEARMAN,
        unit=unit,
        conclusions=CLS_CONCLUSIONS,
    )


def _direction(study: Study) -> Finding:
    losses = study.validation
    what, unit, _ = measure(ORDER, losses.labels)
    title, query = (study.ladders[one, "before"].whole for one in ("T<Q", "Q<T"))
    changes = losses.change(title, ORDER), losses.change(query, ORDER)
    apart = None if changes[0] is None or changes[1] is None else changes[0].less(changes[1])
    return beyond(
        "ladder_direction",
        Text(
            f"所有层里标题都不看查询（T<Q），{what.zh}比查询都不看标题（Q<T）时下降更多",
            f"With the title not reading the query in any layer (T<Q), {what.en} falls further than with "
            "the query not reading the title (Q<T)",
        ),
        DIRECTION_SOURCE,
        None if apart is None else apart.value,
        None if apart is None else apart.samples,
        p=None if apart is None else losses.swapped_p(title, query, ORDER),
        n_queries=losses.effects.n_queries,
        side="below",
        unit=unit,
        conclusions=DIRECTION_CONCLUSIONS,
    )


def _step(study: Study) -> Finding:
    found, asked = study.step.apart, study.asked
    who = Text("匹配头", "the matching heads") if asked is None else asked.said
    return no_effect(
        "ladder_step",
        Text(
            f"三种都切（all），损失过半的那一层与 {who.zh}的中位层相差不超过 1 层",
            f"The layer whose cut (all) brings the loss over half of the whole lies within 1 layer of the "
            f"median layer of {who.en}",
        ),
        STEP_SOURCE,
        None if found is None else found.value,
        None if found is None else found.samples,
        n_queries=study.validation.effects.n_queries,
        margin=NEAR,
        unit=LAYERS,
        conclusions=STEP_CONCLUSIONS,
    )
