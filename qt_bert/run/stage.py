"""Stages of a run: what they share, their keys, how long they take, and running them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from qt_bert.codec import encode
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.models.card import Reading
from qt_bert.probes.split import PairFiles, ProbeFiles, Split, described
from qt_bert.progress import Progress, silent
from qt_bert.results.kept import KeptFile
from qt_bert.results.probe import ModelRef, PairsRef
from qt_bert.run.folder import RunFolder, RunInputs, RunRecord, StageRecord
from qt_bert.shipped import shipped, ships

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer


# What a stage of a study gets.


T = TypeVar("T")


@dataclass(kw_only=True)
class StudyContext:
    """What a stage gets: the run folder with its inputs, where model and pairs lie, and notes.

    `discovery`: pairs to choose on, where they are a file of their own. `files` are what probes read
    besides. A stage puts the figures of its checks into `guards`; they end in `run.json`.
    """

    folder: RunFolder
    model: Path
    pairs: Path
    discovery: Path | None = None
    files: ProbeFiles = field(default_factory=ProbeFiles)
    guards: dict[str, Any] = field(default_factory=dict)
    _shared: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def argument(self, name: str) -> Any:
        """The run's argument `name`; a stage asks only for those that it declares."""
        return self.folder.record.inputs.arguments[name]

    def shared(self, name: str, build: Callable[[], T]) -> T:
        """What several stages use (the model, the pairs), built when it is first asked for."""
        if name not in self._shared:
            self._shared[name] = build()
        return cast(T, self._shared[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One part of a run.

    `run` writes exactly the files in `outputs` (paths relative to the run folder), each
    atomically; it may keep unfinished work there under other names and go on from it. `folders`
    are folders of such work below `sweeps/`, which go when the stage's result is forgotten.
    `arguments` names the run's arguments that its figures depend on, `needs` the earlier stages
    whose files it reads; `reads` are files that ship and that it reads besides, by their names in
    `data/`. `quick_seconds` is its share of the profile `quick` on two cores.
    `applies` says whether a run of these inputs has the stage at all.
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
    applies: Callable[[RunInputs], bool] = lambda inputs: True


def stage_key(stage: Stage, record: RunRecord, needed: Mapping[str, str]) -> str:
    """SHA-256 over all that the stage's files depend on.

    `needed` maps the stages whose results it reads to their keys.
    Raises ArgumentError when the run lacks an argument that the stage names.
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
        "segmenter": inputs.segmenter,
        "arguments": {name: encode(inputs.arguments[name]) for name in stage.arguments},
        "needs": dict(needed),
        "reads": {name: sha256_file(shipped(name)) for name in stage.reads if ships(name)},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# What the stages of one run share, opened when the first of them asks.


GRADING_ARGUMENTS = (
    "reader",
    "dtype",
    "device",
    "max_length",
    "model_grades",
    "reading",
    "resamples",
    "seed",
)
"""What every stage depends on, beside model and pairs."""

SPLIT_ARGUMENTS = (*GRADING_ARGUMENTS, "profile", "discovery")
"""What every stage depends on that chooses on discovery and tests on validation."""

HEADS_GONE = "heads_gone"
"""The argument that says whether heads were pruned from the model of the run."""


def scorer_of(context: StudyContext) -> Scorer:
    """The run's checkpoint, ready to score."""

    def build() -> Scorer:
        from qt_bert.models.opening import open_checkpoint
        from qt_bert.scoring.bulk import Scorer

        checkpoint = open_checkpoint(
            context.model,
            dtype=context.argument("dtype"),
            device=context.argument("device").split()[0],  # behind it stands the GPU's name
            model_grades=context.argument("model_grades"),
            reading=Reading(**context.argument("reading")),
        )
        return Scorer(checkpoint, max_length=context.argument("max_length"))

    return context.shared("scorer", build)


def reader_options(context: StudyContext) -> ReaderOptions:
    """The run's reader options."""
    return ReaderOptions(**context.argument("reader"))


def pair_files(context: StudyContext) -> PairFiles:
    """Where the run's pairs lie."""
    reader = reader_options(context)
    return PairFiles(pairs=context.pairs, reader=reader, discovery=context.discovery)


def split_of(context: StudyContext) -> Split:
    """The run's graded pairs to choose on and to test on. Raises PairFileError as `PairFiles.read` does."""
    labels = scorer_of(context).checkpoint.settings.labels
    return context.shared("split", lambda: pair_files(context).read(labels))


def has_pruned_heads(model: Path) -> bool:
    """Whether heads are gone from the model in this folder. Raises RunFolderError for a damaged file."""
    kept = KeptFile.read(model)
    return kept is not None and not kept.whole_heads


def run_inputs(
    model: Path, pairs: Path, arguments: Mapping[str, Any], segmenter: str | None = None
) -> RunInputs:
    """What decides a run: hashes of model and pairs, and the command's arguments.

    The model's hash covers every file of its folder, so that another calibration, meaning of the
    logits or card never answers from an old run. Raises CheckpointError for a folder that is no model.
    """
    return RunInputs(
        model=ModelRef(**described(model, "model")),
        pairs=PairsRef(**described(pairs)),
        arguments=arguments,
        segmenter=segmenter,
    )


# Which stages a run has, and how long they will take.


def select(
    stages: Iterable[Stage], inputs: RunInputs, only: Sequence[str] | None = None
) -> list[Stage]:
    """The stages of a run: those that apply, or `only` some with what they need.

    `only` names probes or other stages. The plan then knows what the chosen probes found. Raises
    ArgumentError for a name that is no stage of this run.
    """
    applying = {stage.name: stage for stage in stages if stage.applies(inputs)}
    if only is None:
        return list(applying.values())
    short = {name.removeprefix("probe:"): name for name in applying}
    if strange := [name for name in only if name not in short]:
        raise ArgumentError(f"--only {strange[0]!r}: this run has {', '.join(short)}")
    chosen: set[str] = set()
    for name in only:
        chosen |= {*(applying[short[name]].needs if name != "plan" else ()), short[name]}
    return [
        replace(stage, needs=tuple(name for name in stage.needs if name in chosen))
        for name, stage in applying.items()
        if name in chosen
    ]


REFERENCE_RATE = 460.0
"""Pairs a second of the model that ships, as a forecast times them, on the two cores of `quick_seconds`:
a run of what ships took 458 s where the forecast timed 403, and the stages' seconds sum to 399."""
REFERENCE_PAIRS = 800
TIMED, TIMED_SECONDS = 96, 2.0
"""Pairs that a forecast times, which fill a batch, and for how long it does so over and over: the first
passes are slow while threads and memory are made, and the fastest counts."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will do: `runs` counts pairs through the model, or what takes as long; `share` is that
    of its pairs in those of what ships."""

    runs: int
    text: str
    share: float = 1.0


def forecast(stages: Sequence[Stage], context: StudyContext) -> Forecast:
    """Time a few pairs, and say what will run and about how long.

    A stage takes the time that it took on what ships, by the rate of this model here and the share of
    its pairs. `--full` takes several times as long; what it takes on a model of one's own is not known.
    Raises CheckpointError as opening the model does.
    """
    keys = _keys(sorted(stages, key=lambda stage: stage.order), context.folder)
    ahead = [one for one in stages if not context.folder.is_done(one.name, keys[one.name])]
    if not ahead:
        return Forecast(0, "nothing to run: all of it is done")
    names = ", ".join(stage.name.removeprefix("probe:") for stage in ahead)
    scorer = scorer_of(context)
    try:
        split = split_of(context)
    except PairFileError:  # the evaluation may still be made; the stage that halves it says why
        return Forecast(sum(map(runs_of, ahead)), f"{len(ahead)} stages: {names}")
    pairs = [(pair.query, pair.title) for pair in split.validation[:TIMED]]
    scorer.fresh().logits(pairs[:8])  # the first batch allocates
    rate = len(pairs) / _seconds(scorer, pairs)
    share = len(split.validation) / REFERENCE_PAIRS
    runs = sum(runs_of(stage, share) for stage in ahead)
    minutes = max(1, round(runs / rate / 60))
    long = (
        "--full takes several times the quick profile"
        if context.argument("profile") == "full"
        else f"about {minutes} min here"
    )
    return Forecast(
        runs,
        f"{len(ahead)} stages on {len(split.validation):,} pairs ({len(split.discovery):,} to choose "
        f"on), {rate:,.0f} pairs/s: {long}\n{names}",
        share,
    )


def _seconds(scorer: Scorer, pairs: Sequence[tuple[str, str]]) -> float:
    taken: list[float] = []
    while sum(taken) < TIMED_SECONDS:
        start = time.perf_counter()
        scorer.fresh().logits(pairs)
        taken.append(time.perf_counter() - start)
    return min(taken)


def runs_of(stage: Stage, share: float = 1.0) -> int:
    """How many pairs through the model take as long as this stage does on `share` of what ships."""
    return max(1, round(stage.quick_seconds * REFERENCE_RATE * share))


# Running the stages of a study, each only where its result is not there yet.


def run_study(
    stages: Iterable[Stage],
    context: StudyContext,
    progress: Progress = silent,
    share: float = 1.0,
    beside: Iterable[Stage] = (),
) -> tuple[str, ...]:
    """Bring every stage's files up to date; return the names of the stages that had to run.

    Stages that do not apply to the run's inputs are left out. A stage is reused when model, pairs,
    segmenter, its arguments, the package's sources and the stages that it needs are unchanged and its
    files are there. An exception in a stage leaves the folder as one that resumes there. `beside` are
    stages that are not asked for now: what they left stays, and a run that would make it stale is refused.
    `progress` counts runs, as `runs_of` has them of this `share` of the pairs.

    Raises ArgumentError when a stage needs one that does not come before it, RunFolderError for results
    of other inputs.
    """
    folder = context.folder
    applying = [stage for stage in stages if stage.applies(folder.record.inputs)]
    ordered = sorted(applying, key=lambda stage: stage.order)
    keys = _keys(ordered, folder)
    folder.plan(keys | _kept(ordered, beside, folder))
    ran = []
    for stage in ordered:
        if folder.is_done(stage.name, keys[stage.name]):
            continue
        _run_stage(stage, keys[stage.name], context)
        ran.append(stage.name)
        progress.advance(runs_of(stage, share), stage.name)
    folder.complete()
    return tuple(ran)


def _kept(ordered: Sequence[Stage], beside: Iterable[Stage], folder: RunFolder) -> dict[str, str]:
    """The keys of what is done and not asked for now. Raises RunFolderError where one no longer holds."""
    asked = {stage.name for stage in ordered}
    done = {n: one for n, one in folder.record.stages.items() if one.status == "done"}
    there = [stage for stage in beside if stage.name in done and stage.name not in asked]
    others = [
        replace(stage, needs=done[stage.name].needs)
        for stage in there
        if stage.applies(folder.record.inputs)
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
    context.guards = {}
    running = StageRecord(
        status="running",
        key=key,
        files=stage.outputs,
        folders=stage.folders,
        needs=stage.needs,
    )
    context.folder.begin(stage.name, running)
    start = time.perf_counter()
    stage.run(context)
    context.folder.finish(stage.name, time.perf_counter() - start, context.guards)
