"""What is at risk: the functions whose heads are lost."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.encoder.heads import Head
from qt_bert.planning.choice.measure import Change, Removal
from qt_bert.planning.functions import Functions
from qt_bert.planning.grid import as_measured
from qt_bert.planning.removals import lost_heads, removal_of
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan_evidence import TESTED, AtRisk

Lost = dict[str, tuple[str, ...]]


def lost_by_function(functions: Functions, chosen: Removal, teacher: TeacherRef) -> Lost:
    """Set → those of its heads that go, by name."""
    gone = lost_heads(chosen, teacher)
    return {
        name: tuple(head for head in heads if head in gone)
        for name, heads in functions.sets.items()
    }


def risk_removals(lost: Lost) -> dict[str, Removal]:
    """Set → its lost heads left out alone, where it loses any."""
    return {name: removal_of(map(Head.parse, heads)) for name, heads in lost.items() if heads}


def at_risk(
    functions: Functions, lost: Lost, measured: Mapping[Removal, Mapping[str, Change]]
) -> tuple[AtRisk, ...]:
    """Each function's heads, those lost, and ρ's change without the lost ones alone."""
    removals = risk_removals(lost)
    return tuple(
        AtRisk(
            name=name,
            heads=heads,
            lost=lost[name],
            measured=as_measured(measured[removals[name]]).get(TESTED)
            if name in removals
            else None,
            unstable=name in functions.unstable,
        )
        for name, heads in functions.sets.items()
    )
