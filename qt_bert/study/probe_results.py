"""The results that the probes of a run left, settled together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from qt_bert.results import ProbeResult
from qt_bert.results.verdicts import settle
from qt_bert.study.run_folder import RunFolder


def read_probes(folder: RunFolder, where: str = "probes") -> tuple[ProbeResult, ...]:
    """The results of the run's finished probes, in the order of the report.

    `where` is their folder in the run's: the probes of a model that is compared lie in one of their own.
    q and verdicts are set anew over the primary findings of all of them, which are one family.
    Raises RunFolderError for a damaged result.
    """
    results = sorted(
        map(_read, _files(folder, where)), key=lambda result: (result.order, result.probe)
    )
    settled = iter(settle([finding for result in results for finding in result.findings]))
    return tuple(
        replace(result, findings=tuple(next(settled) for _ in result.findings))
        for result in results
    )


def _files(folder: RunFolder, where: str) -> Iterator[Path]:
    for stage in folder.record.stages.values():
        for name in stage.files:
            if stage.status == "done" and PurePosixPath(name).parent == PurePosixPath(where):
                yield folder.file(name)


def _read(path: Path) -> ProbeResult:
    # The file's name is one in its folder; what the file says of itself may be anything.
    return replace(ProbeResult.read(path), probe=path.stem)
