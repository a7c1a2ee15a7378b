"""Heads that harm, as the plan says it."""

from __future__ import annotations

from math import isnan

from qt_bert.planning.choice.harm import harmful_heads
from qt_bert.planning.task import PlanTask
from qt_bert.results.plan_evidence import Harm, HarmfulHead


def harm_of(task: PlanTask) -> Harm:
    """Heads without which the model does better: found on discovery, confirmed on validation."""
    found = harmful_heads(
        task.scorer,
        task.validation.pairs,
        task.singles,
        mask=task.mask,
        seed=task.seed,
        work=task.work,
    )
    return Harm(
        metric=found.metric,
        heads=tuple(
            HarmfulHead(
                head=str(head),
                discovery=found.gains[head][0],
                validation=None if isnan(found.gains[head][1]) else found.gains[head][1],
                confirmed=head in found.confirmed,
            )
            for head in found.candidates
        ),
    )
