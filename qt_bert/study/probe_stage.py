"""A probe as a stage of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from qt_bert.errors import ArgumentError
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import Probe, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results import ProbeResult
from qt_bert.study.context import StudyContext
from qt_bert.study.inputs import SPLIT_ARGUMENTS, reader_options, scorer_of
from qt_bert.study.record import RunInputs
from qt_bert.study.stage import Stage, always

_AFTER_EVALUATION = 100
ARGUMENTS = (*SPLIT_ARGUMENTS, "userdict")
"""What every probe depends on, beside model and pairs."""


def probe_stage(probe: Probe) -> Stage:
    """The stage `probe:NAME`, which writes `probes/NAME.json`.

    A probe that needs a base belongs only to runs that have one.
    """
    return Stage(
        name=f"probe:{probe.name}",
        order=_AFTER_EVALUATION + probe.order,
        run=partial(_run, probe),
        outputs=(_result(probe),),
        arguments=(*ARGUMENTS, *_inputs(probe)),
        needs=tuple(f"probe:{name}" for name in probe.needs),
        folders=(sweeps_of(probe),),
        reads=probe.reads,
        quick_seconds=probe.quick_seconds,
        applies=_has_base if probe.needs_base else always,
    )


def sweeps_of(probe: Probe) -> str:
    """The folder of a probe's sweeps inside that of a run."""
    return f"sweeps/{probe.name}"


def probe_context(
    probe: Probe,
    context: StudyContext,
    sweeps: str | None = None,
    find: Callable[[str], ProbeResult] | None = None,
) -> ProbeContext:
    """What the probe gets in this run; model and pairs are opened once for all stages.

    `sweeps` is the folder of its sweeps in that of the run, where it is not the usual one; `find`
    gives the result of a probe that it needs, where that is not among those of the run.
    """
    files = PairFiles(
        pairs=context.pairs, reader=reader_options(context), discovery=context.files.discovery
    )
    return ProbeContext(
        label=probe.name,
        files=files,
        work=context.folder.work(sweeps or sweeps_of(probe)),
        open_model=lambda: scorer_of(context),
        read_pairs=lambda labels: context.shared("split", lambda: files.read(labels)),
        full=context.argument("profile") == "full",
        seed=context.argument("seed"),
        resamples=context.argument("resamples"),
        segmenter_name=context.folder.record.inputs.segmenter or "jieba",
        userdict=context.files.userdict,
        guards=context.guards,
        find=find or partial(_left, probe, context),
        **{name: getattr(context.files, name) for name in probe.inputs},
    )


def _inputs(probe: Probe) -> tuple[str, ...]:
    """Its own inputs, and those of the probes it needs: alone, it runs them itself."""
    asked = (probe, *map(probe_named, probe.needs))
    return tuple(dict.fromkeys(name for one in asked for name in one.inputs))


def _left(probe: Probe, context: StudyContext, name: str) -> ProbeResult:
    """What a probe that `probe` needs left in this run."""
    if name not in probe.needs:
        raise ArgumentError(f"the probe {probe.name!r} does not say that it needs {name!r}")
    return ProbeResult.read(context.folder.file(_result(probe_named(name))))


def _run(probe: Probe, context: StudyContext) -> None:
    run_probe(probe, probe_context(probe, context)).write(context.folder.file(_result(probe)))


def _result(probe: Probe) -> str:
    return f"probes/{probe.name}.json"


def _has_base(inputs: RunInputs) -> bool:
    return inputs.arguments["base"] is not None
