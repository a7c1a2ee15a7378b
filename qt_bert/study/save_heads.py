"""The small file of a run's named heads, to lie beside the model that it was made of."""

from __future__ import annotations

from pathlib import Path

from qt_bert.results.heads_file import heads_file
from qt_bert.study.probe_results import read_probes
from qt_bert.study.run_folder import RunFolder


def save_heads(folder: RunFolder, path: Path) -> None:
    """Write what the run's finished probes say of the heads.

    Raises ArgumentError where no probe is finished, RunFolderError for a damaged result.
    """
    heads_file(read_probes(folder), folder.record.versions).write(path)
