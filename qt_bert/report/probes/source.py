"""Where the sections find the results of probes."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from qt_bert.results import ProbeResult, Text
from qt_bert.study import RunFolder, probe_results

__all__ = ["anchor_of", "read_probes", "title_of"]

# Several sections of one drawing ask for the same; a folder is opened anew for each drawing.
_read: WeakKeyDictionary[RunFolder, dict[str, tuple[ProbeResult, ...]]] = WeakKeyDictionary()


def read_probes(folder: RunFolder, where: str = "probes") -> tuple[ProbeResult, ...]:
    """The results of the run's finished probes, read once a drawing.

    Raises RunFolderError for a damaged result.
    """
    known = _read.setdefault(folder, {})
    if where not in known:
        known[where] = probe_results.read_probes(folder, where)
    return known[where]


def title_of(result: ProbeResult) -> Text:
    """The probe's title, or its name where the file gives none."""
    return result.title or Text(result.probe, result.probe)


def anchor_of(result: ProbeResult) -> str:
    """The anchor of the probe's section."""
    return f"probe-{result.probe}"
