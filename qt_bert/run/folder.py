"""The folder of a run: its inputs, its finished stages, and what must never be touched."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from qt_bert.codec import encode
from qt_bert.errors import RunFolderError
from qt_bert.files import is_vacant, sha256_file, write_json
from qt_bert.request import Request
from qt_bert.results.baselines import RECORD as BASELINES_RECORD
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ModelRef, PairsRef, ProbeResult, SourcedClaim
from qt_bert.resume import RECORD, goes_on, read_record
from qt_bert.shipped import GRADED, installed_versions, shipped, source_hash
from qt_bert.stats.verdict import with_q

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
        one.name: described(getattr(request, one.name), one.name)
        for one in fields(request)
        if one.name not in ("model", "pairs")
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
        return [described(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
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


_WORK = "sweeps"


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
                # Not saved yet: only `plan` knows which of the old results still hold.
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

    def plan(self, keys: Mapping[str, str]) -> None:
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
        """Record the stage as running, with the files and the folders that it will write."""
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


# The results of a run's probes, with q over all their claims.


def read_probes(folder: RunFolder) -> tuple[ProbeResult, ...]:
    """The results of the run's finished probes, in the order of the report.

    q is computed over all claims of the run, one family; verdicts depend on p and stay.
    Raises RunFolderError for a damaged result.
    """
    return _family(folder)[0]


def read_plan_claim(folder: RunFolder) -> SourcedClaim | None:
    """The claim of the run's plan, with q over all claims of the run; None without a plan."""
    return _family(folder)[1]


def _family(folder: RunFolder) -> tuple[tuple[ProbeResult, ...], SourcedClaim | None]:
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
