"""The folder of a run: its inputs, stages and results; running the stages whose results are not there yet."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

from qt_bert.codec import encode
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.files import is_vacant, sha256_file, write_json
from qt_bert.probes.base import Split, read_held_out, read_split
from qt_bert.progress import Progress, silent
from qt_bert.request import Request
from qt_bert.results.baselines import RECORD as BASELINES_RECORD
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ModelRef, PairsRef, ProbeResult, SourcedClaim
from qt_bert.resume import RECORD, goes_on, read_record
from qt_bert.shipped import GRADED, installed_versions, shipped, ships, source_hash
from qt_bert.stats.verdict import with_q

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer

T = TypeVar("T")

# The content of `run.json`: the inputs of a run, and its stages.


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """One stage: its key (see `stage_key`), its files and its seconds.

    `folders`, below `sweeps/`, hold its sweeps, which a killed stage resumes. `needs` are the stages whose
    results it read.
    """

    status: Literal["pending", "running", "done"]
    key: str = ""
    seconds: float | None = None
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """What decides every figure of a run: model, pairs, and the other fields of the request.

    `arguments` are plain JSON values; a stage depends only on those that it declares.
    """

    model: ModelRef
    pairs: PairsRef
    arguments: Mapping[str, Any] = field(default_factory=dict)


def run_inputs(request: Request) -> RunInputs:
    """The inputs of a request: model and pairs by hash, and every other field as a plain JSON value.

    The model's hash covers every file of its folder, so another calibration, meaning of the logits or
    card is another input. Raises CheckpointError for a folder that is no model.
    """
    from qt_bert.models.devices import device_name, open_device

    arguments = {
        option.name: described(getattr(request, option.name), option.name)
        for option in fields(request)
        if option.name not in ("model", "pairs")
    }
    device = open_device(request.device)
    if device.type == "cuda":
        arguments["device"] += f" {device_name(device)}"
    model = Path(request.model or shipped(GRADED))
    return RunInputs(
        model=ModelRef(**described(model, "model")),
        pairs=PairsRef(**described(request.validation_file)),
        arguments=arguments,
    )


def described(value: Any, name: str = "") -> Any:
    """A request's field `name` as a plain JSON value: files and folders by name and SHA-256."""
    if isinstance(value, list):
        return [described(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if name == "template" and value is not None and Path(value).is_file():
        value = Path(value)
    if not isinstance(value, Path):
        return value
    if name in ("model", "base", "second"):
        from qt_bert.models.folder import folder_sha256, verify_folder

        verify_folder(value)
        return {"name": value.name, "sha256": folder_sha256(value)}
    file = value / BASELINES_RECORD if name == "baseline_table" else value
    return {"name": value.name, "sha256": sha256_file(file)}


def profile_of(inputs: RunInputs) -> str:
    """`full` or `quick`."""
    return "full" if inputs.arguments.get("full") else "quick"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The content of `run.json`.

    `source` is the hash of the package's sources, `guards` the figures of each stage's checks,
    `complete` whether every requested stage is done.
    """

    kind: ClassVar[str] = "study"
    schema: Literal[1] = 1
    versions: dict[str, str]
    source: str
    inputs: RunInputs
    stages: dict[str, StageRecord] = field(default_factory=dict)
    guards: dict[str, Any] = field(default_factory=dict)
    complete: bool = False


# The folder.


_WORK, REPORT = "sweeps", "report.html"


class RunFolder:
    """A run folder and its `run.json`, which is rewritten atomically at each change."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    @classmethod
    def open(
        cls, path: Path, inputs: RunInputs, *, resume: bool = False, overwrite: bool = False
    ) -> RunFolder:
        """Start a run in `path`, or go on with the one that is there.

        The flags act as `qt_bert.resume` says; `overwrite` removes what the stages wrote. Raises
        RunFolderError as `goes_on` does, and where `path` holds anything but a run.
        """
        fresh = RunRecord(versions=installed_versions(), source=source_hash(), inputs=inputs)
        if is_vacant(path):
            folder = cls(path, fresh)
        else:
            folder = cls.read(path)
            complete = folder.record.complete
            if goes_on(path, "run", complete=complete, resume=resume, overwrite=overwrite):
                # Not saved yet: only `expect` knows which of the old results still hold.
                stages, guards = folder.record.stages, folder.record.guards
                folder.record = replace(fresh, stages=stages, guards=guards)
                return folder
            folder._forget(folder.record.stages)
            folder.record = fresh
        folder._save()
        return folder

    @classmethod
    def read(cls, path: Path) -> RunFolder:
        """The run in `path`, as it stands. Raises RunFolderError when there is none."""
        return cls(path, read_record(RunRecord, path, "run"))

    def expect(self, keys: Mapping[str, str]) -> None:
        """Record the stages of these keys as pending, unless they are done.

        Removes every recorded stage that is not in `keys` or has another key, with its files: a stale
        result must not reach the report.
        """
        self._forget([n for n, stage in self.record.stages.items() if stage.key != keys.get(n)])
        pending = {name: StageRecord(status="pending") for name in keys}
        self._update(stages=pending | self.record.stages, complete=False)

    def is_done(self, name: str, key: str) -> bool:
        """Whether the stage's files exist, under the same key."""
        stage = self.record.stages.get(name)
        return (
            stage is not None
            and (stage.status, stage.key) == ("done", key)
            and all(self.file(name).is_file() for name in stage.files)
        )

    def begin(self, name: str, running: StageRecord) -> None:
        """Record the stage as running, with the files and the folders that it will write.

        Unless it goes on, what lies in these folders is of no recorded stage, and removed.
        """
        if self.record.stages[name].status == "pending":
            for folder in running.folders:
                shutil.rmtree(self.work(folder), ignore_errors=True)
        self._update(stages=self.record.stages | {name: running}, complete=False)

    def finish(self, name: str, seconds: float, guards: Mapping[str, Any]) -> None:
        """Record the stage as done. Raises RunFolderError for a file that it did not write."""
        stage = self.record.stages[name]
        missing = [file for file in stage.files if not self.file(file).is_file()]
        if missing:
            raise RunFolderError(f"{self.path}: stage {name!r} ended without writing {missing[0]}")
        done = replace(stage, status="done", seconds=round(seconds, 3))
        self._update(
            stages=self.record.stages | {name: done},
            guards=self.record.guards | ({name: dict(guards)} if guards else {}),
        )

    def complete(self) -> None:
        """Record the whole run as done."""
        self._update(complete=True)

    def file(self, relative: str) -> Path:
        """A path inside the folder. Raises RunFolderError for one that leads out of it."""
        path = (self.path / relative).resolve()
        if not path.is_relative_to(self.path.resolve()):
            raise RunFolderError(f"{relative!r} leads out of the run folder {self.path}")
        return path

    def work(self, relative: str) -> Path:
        """A folder of sweeps inside the folder. Raises RunFolderError for any other place.

        Such a folder may be removed with its content, so a damaged record must not name another one.
        """
        path = self.file(relative)
        if self.file(_WORK) not in path.parents:
            raise RunFolderError(f"{relative!r} is no folder below {self.path / _WORK}")
        return path

    def _forget(self, names: Iterable[str]) -> None:
        forgotten = set(names)
        for name in forgotten:
            # A page of its result must not outlive it.
            if self.record.stages[name].status == "done":
                self.file(REPORT).unlink(missing_ok=True)
            for file in self.record.stages[name].files:
                self.file(file).unlink(missing_ok=True)
            for folder in self.record.stages[name].folders:
                if (place := self.work(folder)).is_dir():
                    shutil.rmtree(place)
        stages = {n: stage for n, stage in self.record.stages.items() if n not in forgotten}
        guards = {n: guard for n, guard in self.record.guards.items() if n not in forgotten}
        self.record = replace(self.record, stages=stages, guards=guards)

    def _update(self, **changes: Any) -> None:
        self.record = replace(self.record, **changes)
        self._save()

    def _save(self) -> None:
        write_json(self.path / RECORD, encode(self.record))


# What a stage of a study gets.


@dataclass(kw_only=True)
class StageContext:
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

    `run` writes the files in `outputs` (paths relative to the run folder), each
    atomically; it may keep unfinished work there under other names and resume it. `folders`
    are folders of such work below `sweeps/`, removed with the stage's result.
    `arguments` names the fields of the request that its figures depend on; it gets no others. `needs` are
    the earlier stages whose files it reads; `reads` are files that ship and that it reads besides, by their
    names in `data/`. `quick_seconds` is its time in the profile `quick` on two cores.
    `applies`: whether a run of this request has the stage at all. `only_full`: a quick run of all stages
    leaves it out.
    """

    name: str
    order: int
    run: Callable[[StageContext], None]
    outputs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    quick_seconds: float
    applies: Callable[[Request], bool] = lambda request: True
    only_full: bool = False


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


def scorer_of(context: StageContext) -> Scorer:
    """The run's checkpoint, ready to score, with every head in its place."""
    from qt_bert.scoring.bulk import Scorer

    return context.once("scorer", lambda: Scorer.open(context.request))


def split_of(context: StageContext) -> Split:
    """The run's graded pairs to choose on and to test on. Raises as `read_split` does."""
    labels = scorer_of(context).checkpoint.settings.labels
    return context.once("split", lambda: read_split(context.request, labels))


# Which stages a run has, and how long they will take.


def select(
    stages: Iterable[Stage], request: Request, only: Sequence[str] | None = None
) -> list[Stage]:
    """The stages of a run: those that apply, in a quick run but the `only_full`; or `only` some with those
    that they need.

    `only` names probes or other stages. The plan then uses the results of these probes alone. Raises
    ArgumentError for a name that is no stage of this run.
    """
    applying = {stage.name: stage for stage in stages if stage.applies(request)}
    if only is None:
        return [stage for stage in applying.values() if request.full or not stage.only_full]
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


REFERENCE_RATE = 145.0
"""Pairs a second of the model that ships, timed as a forecast times them on the two cores of
`quick_seconds`."""
REFERENCE_PAIRS = 800
TIMED, TIMED_SECONDS = 96, 2.0
"""Pairs that a forecast times, enough for a batch, and for how many seconds: the fastest pass counts, since
the first ones also start threads and allocate."""


@dataclass(frozen=True, slots=True)
class RunForecast:
    """What a run will do: its time in `runs`, pairs through the model; `share`: its number of pairs over that
    of the split that ships."""

    runs: int
    text: str
    share: float = 1.0


def forecast(stages: Sequence[Stage], context: StageContext) -> RunForecast:
    """Which stages will run and about how long they take, from a few timed pairs.

    A stage's time is that on what ships, scaled by this model's rate and its number of pairs. `--full`
    takes several times as long; it is not estimated. Raises CheckpointError as opening the model does.
    """
    keys = _keys(stages, context.folder)
    ahead = [stage for stage in stages if not context.folder.is_done(stage.name, keys[stage.name])]
    if not ahead:
        return RunForecast(0, "nothing to run: all of it is done")
    names = ", ".join(stage.name.removeprefix("probe:") for stage in ahead)
    scorer = scorer_of(context)
    try:
        split = split_of(context)
    except PairFileError:  # the stage that splits the pairs raises it; the evaluation may still run
        return RunForecast(sum(map(pairs_through_model, ahead)), f"{len(ahead)} stages: {names}")
    # A bad label is an error now, not in the middle of the run.
    read_held_out(context.request, scorer.checkpoint.settings.labels, split.discovery)
    pairs = [(pair.query, pair.title) for pair in split.validation[:TIMED]]
    scorer.fresh().logits(pairs[:8])  # the first batch allocates
    rate = len(pairs) / _seconds(scorer, pairs)
    share = len(split.validation) / REFERENCE_PAIRS
    runs = sum(pairs_through_model(stage, share) for stage in ahead)
    minutes = max(1, round(runs / rate / 60))
    duration = (
        "--full takes several times the quick profile"
        if context.request.full
        else f"about {minutes} min here"
    )
    return RunForecast(
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


def pairs_through_model(stage: Stage, share: float = 1.0) -> int:
    """The stage's time, counted in pairs through the model, for `share` of the pairs that ship."""
    return max(1, round(stage.quick_seconds * REFERENCE_RATE * share))


# Running the stages of a study whose results are not there yet.


def run_stages(
    stages: Iterable[Stage],
    context: StageContext,
    progress: Progress = silent,
    share: float = 1.0,
    beside: Iterable[Stage] = (),
) -> tuple[str, ...]:
    """Bring every stage's files up to date; return the names of the stages that had to run.

    Stages that do not apply to the request are left out. A stage is reused when model, pairs, its arguments,
    the package's sources and the stages that it needs are unchanged and its files are there. After an
    exception in a stage the folder resumes there. Results of the stages `beside` are kept; a run that would
    change an input of one is refused. `progress` counts `pairs_through_model` each stage.

    Raises ArgumentError when a stage needs one that does not come before it, RunFolderError for results
    of other inputs.
    """
    folder = context.folder
    applying = [stage for stage in stages if stage.applies(context.request)]
    ordered = sorted(applying, key=lambda stage: stage.order)
    keys = _keys(ordered, folder)
    folder.expect(keys | _kept(ordered, beside, context))
    ran = []
    for stage in ordered:
        if folder.is_done(stage.name, keys[stage.name]):
            continue
        _run_stage(stage, keys[stage.name], context)
        ran.append(stage.name)
        progress.advance(pairs_through_model(stage, share), stage.name)
    folder.complete()
    return tuple(ran)


def _kept(
    ordered: Sequence[Stage], beside: Iterable[Stage], context: StageContext
) -> dict[str, str]:
    """The keys of results that are not requested now. Raises RunFolderError where one no longer holds."""
    folder, requested = context.folder, {stage.name for stage in ordered}
    done = {name: r for name, r in folder.record.stages.items() if r.status == "done"}
    there = [stage for stage in beside if stage.name in done and stage.name not in requested]
    others = [
        replace(stage, needs=done[stage.name].needs)
        for stage in there
        if stage.applies(context.request)
    ]
    keys = _keys([*ordered, *others], folder)
    stale = [stage.name for stage in there if keys.get(stage.name) != done[stage.name].key]
    if stale:
        raise RunFolderError(
            f"{folder.path} holds {', '.join(stale)} of another model, file, option or version; give "
            "the same, choose another --out, or --overwrite all of it"
        )
    return {stage.name: keys[stage.name] for stage in others}


def _keys(stages: Iterable[Stage], folder: RunFolder) -> dict[str, str]:
    keys: dict[str, str] = {}
    for stage in sorted(stages, key=lambda stage: stage.order):
        late = [name for name in stage.needs if name not in keys]
        if late:
            raise ArgumentError(f"stage {stage.name!r} needs {late[0]!r}, which comes no earlier")
        needed = {name: keys[name] for name in stage.needs}
        keys[stage.name] = stage_key(stage, folder.record, needed)
    return keys


def _run_stage(stage: Stage, key: str, context: StageContext) -> None:
    declared = replace(context, request=context.request.only(stage.arguments), guards={})
    running = StageRecord(
        status="running", key=key, files=stage.outputs, folders=stage.folders, needs=stage.needs
    )
    context.folder.begin(stage.name, running)
    start = time.perf_counter()
    stage.run(declared)
    context.folder.finish(stage.name, time.perf_counter() - start, declared.guards)


# The results of a run's probes, with q over all their claims.


def probe_file(name: str) -> str:
    """The result file of the probe `name`, relative to the run folder."""
    return f"probes/{name}.json"


def read_probes(folder: RunFolder) -> tuple[ProbeResult, ...]:
    """The results of the run's finished probes, as `judged_together` gives them."""
    return judged_together(folder)[0]


def judged_together(folder: RunFolder) -> tuple[tuple[ProbeResult, ...], SourcedClaim | None]:
    """The results of the finished probes, in the order of the report, and the plan's claim (None without one).

    q is computed over all claims of the run, one family; verdicts depend on p and stay.
    Raises RunFolderError for a damaged result.
    """
    # A file's name is unique in its folder; the name inside it may be anything.
    results = [
        replace(ProbeResult.read(path), probe=path.stem) for path in _files(folder, "probes")
    ]
    results.sort(key=lambda result: (result.order, result.probe))
    plans = [Plan.read(path) for path in _files(folder, "plan") if path.name == "plan.json"]
    of_plan = [plan.evidence.claim for plan in plans if plan.evidence and plan.evidence.claim]
    claims = iter(with_q([*(claim for result in results for claim in result.claims), *of_plan]))
    judged = [
        replace(result, claims=tuple(next(claims) for _ in result.claims)) for result in results
    ]
    return tuple(judged), next(claims, None)


def _files(folder: RunFolder, where: str) -> Iterator[Path]:
    for stage in folder.record.stages.values():
        for name in stage.files:
            if stage.status == "done" and PurePosixPath(name).parent == PurePosixPath(where):
                yield folder.file(name)
