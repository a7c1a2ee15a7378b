"""Where the sections find the results of probes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from qt_bert.results import ProbeResult, Text
from qt_bert.results.verdicts import settle
from qt_bert.study import RunFolder

_PROBES = "probes"


def read_probes(folder: RunFolder) -> tuple[ProbeResult, ...]:
    """The results of the run's finished probes, in the order of the page.

    q and verdicts are set anew over the primary findings of all of them, which are one family.
    Raises RunFolderError for a damaged result.
    """
    results = sorted(map(_read, _files(folder)), key=lambda result: (result.order, result.probe))
    settled = iter(settle([finding for result in results for finding in result.findings]))
    return tuple(
        replace(result, findings=tuple(next(settled) for _ in result.findings))
        for result in results
    )


def title_of(result: ProbeResult) -> Text:
    """The probe's title, or its name where the file gives none."""
    return result.title or Text(result.probe, result.probe)


def _files(folder: RunFolder) -> Iterator[Path]:
    for stage in folder.record.stages.values():
        for name in stage.files:
            if stage.status == "done" and PurePosixPath(name).parent.name == _PROBES:
                yield folder.file(name)


def _read(path: Path) -> ProbeResult:
    # The file's name is one in its folder; what the file says of itself may be anything.
    return replace(ProbeResult.read(path), probe=path.stem)
