"""The model that a run sets beside its own: its context, and its probes as stages."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from qt_bert.errors import ArgumentError
from qt_bert.probes.probe import Probe, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.results import ProbeResult
from qt_bert.study.context import StudyContext
from qt_bert.study.probe_stage import ARGUMENTS, probe_context
from qt_bert.study.record import RunInputs
from qt_bert.study.stage import Stage

COMPARED = "compare"
"""The folder of its probes' results in that of the run."""

EVALUATION, COMPARISON = "compared_evaluation.json", "comparison.json"

COMPARED_ARGUMENTS = ("compared", "compared_grades")
_AFTER_PROBES = 10_000
# Of these it is not known what they would be for another model.
_OF_ONE_MODEL = ("base", "second", "heads")


def has_compared(inputs: RunInputs) -> bool:
    """Whether the run has a second model."""
    return inputs.arguments.get("compared") is not None


def compared_context(context: StudyContext) -> StudyContext:
    """The same run with the other model in place of its own; opened once for all stages."""
    folder = context.files.compared
    if folder is None:
        raise ArgumentError("this run has no second model; give one with --compare")

    def build() -> StudyContext:
        return replace(
            context,
            model=folder,
            files=replace(context.files, base=None, second=None, heads=None),
            replaced={"model_grades": context.argument("compared_grades")},
        )

    other = context.shared("compared", build)
    other.guards = context.guards
    return other


def compared_stage(probe: Probe) -> Stage:
    """The stage `compare:NAME`: the probe run on the other model, with what is known of that one.

    A probe that needs a base is left out: which one the other model had is not known.
    """
    inputs = tuple(name for name in probe.inputs if name not in _OF_ONE_MODEL)
    return Stage(
        name=f"compare:{probe.name}",
        order=_AFTER_PROBES + probe.order,
        run=partial(_run, probe),
        outputs=(_result(probe),),
        arguments=(*ARGUMENTS, *inputs, *COMPARED_ARGUMENTS),
        needs=tuple(f"compare:{name}" for name in probe.needs),
        folders=(_sweeps(probe),),
        quick_seconds=probe.quick_seconds,
        applies=_never if probe.needs_base else has_compared,
    )


def _run(probe: Probe, context: StudyContext) -> None:
    def find(name: str) -> ProbeResult:
        return ProbeResult.read(context.folder.file(_result(probe_named(name))))

    other = probe_context(probe, compared_context(context), _sweeps(probe), find)
    run_probe(probe, other).write(context.folder.file(_result(probe)))


def _result(probe: Probe) -> str:
    return f"{COMPARED}/{probe.name}.json"


def _sweeps(probe: Probe) -> str:
    return f"sweeps/{COMPARED}/{probe.name}"


def _never(inputs: RunInputs) -> bool:
    return False
