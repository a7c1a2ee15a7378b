"""The plan of a smaller model, after the probes: which heads go, and what these do."""

from __future__ import annotations

from dataclasses import replace

from qt_bert.planning.effort import IN_REPORT
from qt_bert.probes.registry import probes
from qt_bert.study.context import StudyContext
from qt_bert.study.plan_stage import PlanAsked, plan_stage
from qt_bert.study.stage import STAGES, Stage

BUDGET = "heads=0.6"
_AFTER_PROBES = 5_000


def _of_run(context: StudyContext) -> None:
    asked = PlanAsked(budget=BUDGET, run=context.folder.path)
    _stage(asked).run(context)


def _stage(asked: PlanAsked) -> Stage:
    # Probes that need a base do not belong to every run, and a stage can only need what does.
    return plan_stage(
        asked,
        folder="plan",
        order=_AFTER_PROBES,
        needs=tuple(f"probe:{probe.name}" for probe in probes() if not probe.needs_base),
        quick=IN_REPORT,
    )


STAGES.add(replace(_stage(PlanAsked(budget=BUDGET)), run=_of_run))
