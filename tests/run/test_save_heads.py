"""What a run leaves beside its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.files import write_json
from qt_bert.results.heads import HeadsFile
from qt_bert.results.probe import ProbeResult
from qt_bert.run.alone import save_heads
from qt_bert.run.folder import RunFolder
from qt_bert.run.stage import Stage, StudyContext, run_study
from tests.results.made_heads import matching, redundancy


def run_of(path: Path, inputs: Any, *results: ProbeResult) -> RunFolder:
    """A complete run that holds these results."""

    def stage(result: ProbeResult) -> Stage:
        file = f"probes/{result.probe}.json"

        def run(context: StudyContext) -> None:
            write_json(context.folder.file(file), result.to_json())

        return Stage(name=result.probe, order=1, run=run, outputs=(file,), quick_seconds=1)

    folder = RunFolder.open(path, inputs())
    context = StudyContext(folder=folder, model=path, pairs=path)
    run_study([stage(result) for result in results], context)
    return RunFolder.read(path)


def test_the_tables_of_a_run_are_written_with_its_versions(tmp_path: Path, inputs: Any) -> None:
    folder = run_of(tmp_path / "run", inputs, redundancy(), matching())
    save_heads(folder, tmp_path / "model" / "heads.json")
    stored = HeadsFile.read(tmp_path / "model" / "heads.json")
    assert [table.probe for table in stored.probes] == ["redundancy", "matching"]
    assert (stored.model.sha256, stored.versions) == ("4f", dict(folder.record.versions))


def test_q_is_that_of_the_whole_report(tmp_path: Path, inputs: Any) -> None:
    folder = run_of(tmp_path / "run", inputs, redundancy())
    save_heads(folder, tmp_path / "heads.json")
    (kept,) = HeadsFile.read(tmp_path / "heads.json").probes[0].claims
    assert (kept.p, kept.q) == (
        0.0001235,
        0.0001235,
    )  # one claim alone; the probe's own file says 0.01


def test_a_run_without_probes_has_nothing_to_save(tmp_path: Path, inputs: Any) -> None:
    folder = run_of(tmp_path / "run", inputs)
    with pytest.raises(ArgumentError, match="no probe"):
        save_heads(folder, tmp_path / "heads.json")
    assert not (tmp_path / "heads.json").exists()
