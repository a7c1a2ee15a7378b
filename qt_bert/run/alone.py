"""One probe or a plan alone in a folder of the user's; the results of probes read and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import read_json, write_json
from qt_bert.planning.budgets import count_kept, parse_budget
from qt_bert.probes.base import Probe, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.results.heads import heads_file
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ProbeResult, SourcedClaim
from qt_bert.run.folder import ProbeFiles, RunFolder, RunInputs, RunRecord, remove_tree
from qt_bert.run.stage import StudyContext, run_study, stage_key
from qt_bert.run.stages import ASKED, PlanRequest, plan_stage, probe_context, probe_stage, sweeps_of
from qt_bert.sources import installed_versions, source_hash
from qt_bert.stats.verdict import with_q

# The results that the probes of a run left, with q over all their claims.


def read_probes(folder: RunFolder, where: str = "probes") -> tuple[ProbeResult, ...]:
    """The results of the run's finished probes, in the order of the report.

    `where` is their folder in the run's: the probes of a model that is compared lie in one of their own.
    q is set anew over all claims of the run, which are one family; verdicts rest on p and stay.
    Raises RunFolderError for a damaged result.
    """
    return _family(folder, where)[0]


def read_plan_claim(folder: RunFolder) -> SourcedClaim | None:
    """The claim of the run's plan, with q over all claims of the run; None where there is none."""
    return _family(folder, "probes")[1]


def _family(folder: RunFolder, where: str) -> tuple[tuple[ProbeResult, ...], SourcedClaim | None]:
    results = sorted(
        map(_read, _files(folder, where)), key=lambda result: (result.order, result.probe)
    )
    planned = [Plan.read(path) for path in _files(folder, "plan") if path.name == "plan.json"]
    of_plan = [one.evidence.claim for one in planned if one.evidence and one.evidence.claim]
    if where != "probes":
        of_plan = []
    claims = with_q([*(claim for result in results for claim in result.claims), *of_plan])
    each = iter(claims)
    found = tuple(
        replace(result, claims=tuple(next(each) for _ in result.claims)) for result in results
    )
    return found, next(each, None)


def _files(folder: RunFolder, where: str) -> Iterator[Path]:
    for stage in folder.record.stages.values():
        for name in stage.files:
            if stage.status == "done" and PurePosixPath(name).parent == PurePosixPath(where):
                yield folder.file(name)


def _read(path: Path) -> ProbeResult:
    # The file's name is one in its folder; what the file says of itself may be anything.
    return replace(ProbeResult.read(path), probe=path.stem)


def save_heads(folder: RunFolder, path: Path) -> None:
    """Write what the run's finished probes say of the heads.

    Raises ArgumentError where no probe is finished, RunFolderError for a damaged result.
    """
    heads_file(read_probes(folder), folder.record.versions).write(path)


# One probe in a folder of the user's, beside the results of others.


def run_alone(
    probe: Probe,
    out: Path,
    inputs: RunInputs,
    *,
    model: Path,
    pairs: Path,
    files: ProbeFiles,
    resume: bool = False,
    overwrite: bool = False,
) -> ProbeResult:
    """Run `probe`, or under `resume` read what it left there, and leave `out/NAME.json`.

    Other files of `out` are no obstacle. The probe's sweeps lie in `out/sweeps/NAME`; the key of
    its inputs is written first, to `out/.NAME.key.json`, so that `resume` goes on only with what
    was begun with the same inputs. `overwrite` removes what this probe left and nothing else.

    Raises RunFolderError where the probe was begun in `out` and the flags do not say what to do, or
    where it was begun with other inputs; ArgumentError where it needs a base and there is none.
    """
    if probe.needs_base and files.base is None:
        raise ArgumentError(
            f"the probe {probe.name!r} compares with the model before fine-tuning; "
            "give its folder with --base"
        )
    record = RunRecord(versions=installed_versions(), source=source_hash(), inputs=inputs)
    # It is never saved: without a run.json the folder stays open to whatever else lies in it.
    folder = RunFolder(out, record)
    place = _Place(folder, probe)
    key = stage_key(probe_stage(probe), record, {})
    place.begin(key, resume=resume, overwrite=overwrite)
    if place.result.is_file():
        return ProbeResult.read(place.result)
    context = StudyContext(folder=folder, model=model, pairs=pairs, files=files)
    find = _Needed(probe, context).find
    result = run_probe(probe, probe_context(probe, context, find=find))
    result.write(place.result)
    return result


class _Needed:
    """The probes that a probe needs: what lies in the folder of the same inputs, else run now.

    Then their results stay in the folder of its sweeps, so that a resumed probe has them.
    """

    def __init__(self, probe: Probe, context: StudyContext) -> None:
        self.probe, self.context = probe, context

    def find(self, name: str) -> ProbeResult:
        if name not in self.probe.needs:
            raise ArgumentError(
                f"the probe {self.probe.name!r} does not say that it needs {name!r}"
            )
        needed = probe_named(name)
        where = f"{sweeps_of(self.probe)}/needed/{name}"
        stored = self.context.folder.work(where) / f"{name}.json"
        beside = _Place(self.context.folder, needed)
        key = stage_key(probe_stage(needed), self.context.folder.record, {})
        for result in (stored, *((beside.result,) if beside.made_under(key) else ())):
            if result.is_file():
                return ProbeResult.read(result)
        found = run_probe(needed, probe_context(needed, self.context, where, self.find))
        found.write(stored)
        return found


class _Place:
    """Where one probe's files lie in a folder that others share."""

    def __init__(self, folder: RunFolder, probe: Probe) -> None:
        if folder.path.exists() and not folder.path.is_dir():
            raise RunFolderError(f"{folder.path} is a file; give a folder")
        self.result = folder.file(f"{probe.name}.json")
        self.key = folder.file(f".{probe.name}.key.json")
        self.sweeps = folder.work(sweeps_of(probe))

    def begin(self, key: str, *, resume: bool, overwrite: bool) -> None:
        """Leave here only what was made under `key`, and the key itself; or refuse."""
        begun = self.key.is_file()
        if self.sweeps.exists() and not begun:
            raise RunFolderError(
                f"{self.sweeps} holds no sweeps of this probe; choose another --out"
            )
        if overwrite:
            self.result.unlink(missing_ok=True)
            remove_tree(self.sweeps)
        elif self.result.exists() or self.sweeps.exists():
            self._check(key, begun, resume)
        write_json(self.key, {"key": key})

    def made_under(self, key: str) -> bool:
        """Whether what lies here was begun with these inputs."""
        return self.key.is_file() and self._stored() == key

    def _check(self, key: str, begun: bool, resume: bool) -> None:
        done = self.result.exists()
        if done and not begun:
            raise RunFolderError(
                f"{self.result} is there already, and nothing says what it was made from; "
                "--overwrite replaces it"
            )
        if begun and not resume:
            state = "is there already" if done else "was begun and not finished"
            raise RunFolderError(
                f"{self.result} {state}; --resume goes on with it, --overwrite starts anew"
            )
        if begun and not self.made_under(key):
            raise RunFolderError(
                f"{self.result} was begun with another model, file, option or version; resume with "
                "the same, or start anew with --overwrite"
            )

    def _stored(self) -> str | None:
        try:
            stored = read_json(self.key)
        except ValueError:
            return None
        return stored.get("key") if isinstance(stored, dict) else None


# A plan alone in a folder of the user's: `plan.json`, and what it takes to go on with it.


PAGE = "plan.html"
"""The plan to read, drawn once it is made."""


def run_plan(
    asked: PlanRequest,
    out: Path,
    inputs: RunInputs,
    *,
    model: Path,
    pairs: Path,
    files: ProbeFiles,
    resume: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Make the plan in the folder `out`, or under `resume` go on with it, and return it.

    The folder is a run of one stage: `run.json` says what it was made from, `sweeps/` holds what
    survives a kill. Raises RunFolderError where the flags do not fit what lies there, ArgumentError
    for a budget that cannot be meant or met,
    PairFileError for a file that cannot be read.
    """
    _check_budget(asked.budget, model)
    stage = plan_stage(asked, arguments=(ASKED,))
    if not stage.applies(inputs):
        raise ArgumentError(f"{model} was pruned itself; make the plan from its teacher")
    arguments: Mapping[str, object] = {**inputs.arguments, ASKED: asked.arguments(model)}
    folder = RunFolder.open(
        out, replace(inputs, arguments=arguments), resume=resume, overwrite=overwrite
    )
    # What is drawn there may be of another plan, and must not outlive this one's being stopped.
    folder.file(PAGE).unlink(missing_ok=True)
    context = StudyContext(folder=folder, model=model, pairs=pairs, files=files)
    run_study([stage], context)
    return Plan.read(folder.file("plan.json"))


def _check_budget(asked: str, model: Path) -> None:
    """Refuse a number of heads or layers that the model does not have before a folder is made."""
    from qt_bert.models.loading import load_config

    budget, config = parse_budget(asked), load_config(model)
    layers = int(config.num_hidden_layers)
    totals = {"heads": layers * int(config.num_attention_heads), "layers": layers}
    if budget.kind_of in totals:
        count_kept(budget, totals[budget.kind_of])
