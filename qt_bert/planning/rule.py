"""The article's rule of thumb: when distilling, keep more of the low layers' heads.

"BERT 可解释性-从“头”说起", 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qt_bert.encoder.heads import Head
from qt_bert.planning.choice.layers import lowest_layers
from qt_bert.planning.choice.measure import Change, Removal
from qt_bert.planning.grid import as_measured
from qt_bert.planning.removals import kept_by, removal_of
from qt_bert.planning.rivals import all_but, averaged, lead
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan_evidence import TESTED, Rule

Measured = Mapping[Removal, Mapping[str, Change]]


def rule_removals(
    teacher: TeacherRef, chosen: Removal, orders: Sequence[Sequence[Head]]
) -> list[Removal]:
    """What the rule would remove at the size of `chosen`: the highest layers, then high heads.

    `orders` are orders of all heads in which those of high layers go first.
    """
    layers = teacher.layers
    gone = all_but(layers, lowest_layers(layers, layers - len(chosen.blocks)))
    if not chosen.heads:
        return [gone]
    there = [[head for head in order if head.layer not in gone.blocks] for order in orders]
    found = [removal_of(order[: len(chosen.heads)], gone.blocks) for order in there]
    return list(dict.fromkeys(found))


def rule_of_thumb(
    teacher: TeacherRef, chosen: Removal, removals: Sequence[Removal], measured: Measured
) -> Rule | None:
    """How the rule's removals measure up to `chosen`; None where ρ is not defined."""
    theirs = averaged([measured[one] for one in removals], TESTED)
    ours = measured[chosen].get(TESTED)
    if ours is None or theirs is None:
        return None
    plain = as_measured({"rule": theirs, "chosen": ours, "ahead": lead(ours, theirs)})
    kept = {one.layer: len(one.heads) for one in kept_by(removals[0], teacher)}
    return Rule(
        kept=tuple(kept.get(layer, 0) for layer in range(teacher.layers)),
        measured=plain["rule"],
        chosen=plain["chosen"],
        ahead=plain["ahead"],
    )
