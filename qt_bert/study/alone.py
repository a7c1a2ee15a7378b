"""One probe in a folder of the user's, beside the results of others."""

from __future__ import annotations

from pathlib import Path

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import read_json, write_json
from qt_bert.probes.probe import Probe, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.results import ProbeResult
from qt_bert.sources import installed_versions, source_hash
from qt_bert.study.context import StudyContext
from qt_bert.study.keys import stage_key
from qt_bert.study.probe_files import ProbeFiles
from qt_bert.study.probe_stage import probe_context, probe_stage, sweeps_of
from qt_bert.study.record import RunInputs, RunRecord
from qt_bert.study.run_folder import RunFolder, remove_tree


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
