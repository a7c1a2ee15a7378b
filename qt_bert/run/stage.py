"""A stage of a run: what it gets, its key and its time; running those whose results are not there yet."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from qt_bert.codec import encode
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.probes.base import Split, read_held_out, read_split
from qt_bert.progress import Progress, silent
from qt_bert.request import Request
from qt_bert.run.folder import RunFolder, RunRecord, StageRecord
from qt_bert.shipped import shipped, ships

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer


# What a stage of a study gets.


T = TypeVar("T")


@dataclass(kw_only=True)
class StudyContext:
    """What a stage gets: the run folder, and the request with the fields that the stage declares.

    `shared` holds what several stages use, by name: a scorer that is open already goes in as "scorer". A
    stage puts the figures of its checks into `guards`; they end in `run.json`.
    """

    folder: RunFolder
    request: Request
    guards: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, build: Callable[[], T]) -> T:
        """What several stages use, built when it is first needed."""
        if name not in self.shared:
            self.shared[name] = build()
        return cast(T, self.shared[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One part of a run.

    `run` writes exactly the files in `outputs` (paths relative to the run folder), each
    atomically; it may keep unfinished work there under other names and resume it. `folders`
    are folders of such work below `sweeps/`, removed with the stage's result.
    `arguments` names the fields of the request that its figures depend on; it gets no others. `needs` are
    the earlier stages whose files it reads; `reads` are files that ship and that it reads besides, by their
    names in `data/`. `quick_seconds` is its time in the profile `quick` on two cores.
    `applies`: whether a run of this request has the stage at all.
    """

    name: str
    order: int
    run: Callable[[StudyContext], None]
    outputs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    quick_seconds: float
    applies: Callable[[Request], bool] = lambda request: True


def stage_key(stage: Stage, record: RunRecord, needed: Mapping[str, str]) -> str:
    """SHA-256 over all that the stage's files depend on.

    `needed` maps the stages whose results it reads to their keys.
    Raises ArgumentError for an argument that the run does not have.
    """
    inputs = record.inputs
    missing = [name for name in stage.arguments if name not in inputs.arguments]
    if missing:
        raise ArgumentError(f"stage {stage.name!r} needs the argument {missing[0]!r}")
    parts = {
        "stage": stage.name,
        "source": record.source,
        "versions": record.versions,
        "model": inputs.model.sha256,
        "pairs": inputs.pairs.sha256,
        "arguments": {name: encode(inputs.arguments[name]) for name in stage.arguments},
        "needs": dict(needed),
        "reads": {name: sha256_file(shipped(name)) for name in stage.reads if ships(name)},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# What the stages of one run share, opened when the first of them needs it.


def scorer_of(context: StudyContext) -> Scorer:
    """The run's checkpoint, ready to score, with every head in its place."""
    from qt_bert.scoring.bulk import Scorer

    return context.once("scorer", lambda: Scorer.open(context.request))


def split_of(context: StudyContext) -> Split:
    """The run's graded pairs to choose on and to test on. Raises PairFileError as `read_split` does."""
    labels = scorer_of(context).checkpoint.settings.labels
    return context.once("split", lambda: read_split(context.request, labels))


# Which stages a run has, and how long they will take.


def select(
    stages: Iterable[Stage], request: Request, only: Sequence[str] | None = None
) -> list[Stage]:
    """The stages of a run: those that apply, or `only` some with those that they need.

    `only` names probes or other stages. The plan then uses the results of these probes alone. Raises
    ArgumentError for a name that is no stage of this run.
    """
    applying = {stage.name: stage for stage in stages if stage.applies(request)}
    if only is None:
        return list(applying.values())
    short = {name.removeprefix("probe:"): name for name in applying}
    if unknown := [name for name in only if name not in short]:
        raise ArgumentError(f"--only {unknown[0]!r}: this run has {', '.join(short)}")
    chosen: set[str] = set()
    for name in only:
        chosen |= {*(applying[short[name]].needs if name != "plan" else ()), short[name]}
    return [
        replace(stage, needs=tuple(name for name in stage.needs if name in chosen))
        for name, stage in applying.items()
        if name in chosen
    ]


REFERENCE_RATE = 460.0
"""Pairs a second of the model that ships, timed as a forecast times them on the two cores of
`quick_seconds`: a run of what ships took 458 s where the forecast timed 403; the stages' seconds sum to 399."""
REFERENCE_PAIRS = 800
TIMED, TIMED_SECONDS = 96, 2.0
"""Pairs that a forecast times, enough for a batch, and for how many seconds: the fastest pass counts, since
the first ones also start threads and allocate."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will do: its time in `runs`, pairs through the model; `share`: its number of pairs over that
    of the split that ships."""

    runs: int
    text: str
    share: float = 1.0


def forecast(stages: Sequence[Stage], context: StudyContext) -> Forecast:
    """Which stages will run and about how long they take, from a few timed pairs.

    A stage's time is that on what ships, scaled by this model's rate and its number of pairs. `--full`
    takes several times as long; it is not estimated. Raises CheckpointError as opening the model does.
    """
    keys = _keys(sorted(stages, key=lambda stage: stage.order), context.folder)
    ahead = [stage for stage in stages if not context.folder.is_done(stage.name, keys[stage.name])]
    if not ahead:
        return Forecast(0, "nothing to run: all of it is done")
    names = ", ".join(stage.name.removeprefix("probe:") for stage in ahead)
    scorer = scorer_of(context)
    # A bad label is an error now, not in the middle of the run.
    read_held_out(context.request, scorer.checkpoint.settings.labels)
    try:
        split = split_of(context)
    except PairFileError:  # the stage that splits the pairs raises it; the evaluation may still run
        return Forecast(sum(map(runs_of, ahead)), f"{len(ahead)} stages: {names}")
    pairs = [(pair.query, pair.title) for pair in split.validation[:TIMED]]
    scorer.fresh().logits(pairs[:8])  # the first batch allocates
    rate = len(pairs) / _seconds(scorer, pairs)
    share = len(split.validation) / REFERENCE_PAIRS
    runs = sum(runs_of(stage, share) for stage in ahead)
    minutes = max(1, round(runs / rate / 60))
    duration = (
        "--full takes several times the quick profile"
        if context.request.full
        else f"about {minutes} min here"
    )
    return Forecast(
        runs,
        f"{len(ahead)} stages on {len(split.validation):,} pairs ({len(split.discovery):,} to choose "
        f"on), {rate:,.0f} pairs/s: {duration}\n{names}",
        share,
    )


def _seconds(scorer: Scorer, pairs: Sequence[tuple[str, str]]) -> float:
    passes: list[float] = []
    while sum(passes) < TIMED_SECONDS:
        start = time.perf_counter()
        scorer.fresh().logits(pairs)
        passes.append(time.perf_counter() - start)
    return min(passes)


def runs_of(stage: Stage, share: float = 1.0) -> int:
    """The stage's time in pairs through the model, for `share` of the pairs that ship."""
    return max(1, round(stage.quick_seconds * REFERENCE_RATE * share))


# Running the stages of a study whose results are not there yet.


def run_study(
    stages: Iterable[Stage],
    context: StudyContext,
    progress: Progress = silent,
    share: float = 1.0,
    beside: Iterable[Stage] = (),
) -> tuple[str, ...]:
    """Bring every stage's files up to date; return the names of the stages that had to run.

    Stages that do not apply to the request are left out. A stage is reused when model, pairs, its arguments,
    the package's sources and the stages that it needs are unchanged and its files are there. After an
    exception in a stage the folder resumes there. Results of the stages `beside` are kept; a run that would
    change an input of one is refused. `progress` counts `runs_of` each stage.

    Raises ArgumentError when a stage needs one that does not come before it, RunFolderError for results
    of other inputs.
    """
    folder = context.folder
    applying = [stage for stage in stages if stage.applies(context.request)]
    ordered = sorted(applying, key=lambda stage: stage.order)
    keys = _keys(ordered, folder)
    folder.plan(keys | _kept(ordered, beside, context))
    ran = []
    for stage in ordered:
        if folder.is_done(stage.name, keys[stage.name]):
            continue
        _run_stage(stage, keys[stage.name], context)
        ran.append(stage.name)
        progress.advance(runs_of(stage, share), stage.name)
    folder.complete()
    return tuple(ran)


def _kept(
    ordered: Sequence[Stage], beside: Iterable[Stage], context: StudyContext
) -> dict[str, str]:
    """The keys of results that are not requested now. Raises RunFolderError where one no longer holds."""
    folder, requested = context.folder, {stage.name for stage in ordered}
    done = {name: one for name, one in folder.record.stages.items() if one.status == "done"}
    there = [stage for stage in beside if stage.name in done and stage.name not in requested]
    others = [
        replace(stage, needs=done[stage.name].needs)
        for stage in there
        if stage.applies(context.request)
    ]
    keys = _keys(sorted([*ordered, *others], key=lambda stage: stage.order), folder)
    stale = [stage.name for stage in there if keys.get(stage.name) != done[stage.name].key]
    if stale:
        raise RunFolderError(
            f"{folder.path} holds {', '.join(stale)} of another model, file, option or version; give "
            "the same, choose another --out, or --overwrite all of it"
        )
    return {stage.name: keys[stage.name] for stage in others}


def _keys(stages: Iterable[Stage], folder: RunFolder) -> dict[str, str]:
    keys: dict[str, str] = {}
    for stage in stages:
        late = [name for name in stage.needs if name not in keys]
        if late:
            raise ArgumentError(f"stage {stage.name!r} needs {late[0]!r}, which comes no earlier")
        needed = {name: keys[name] for name in stage.needs}
        keys[stage.name] = stage_key(stage, folder.record, needed)
    return keys


def _run_stage(stage: Stage, key: str, context: StudyContext) -> None:
    declared = replace(context, request=context.request.only(stage.arguments), guards={})
    running = StageRecord(
        status="running",
        key=key,
        files=stage.outputs,
        folders=stage.folders,
        needs=stage.needs,
    )
    context.folder.begin(stage.name, running)
    start = time.perf_counter()
    stage.run(declared)
    context.folder.finish(stage.name, time.perf_counter() - start, declared.guards)
