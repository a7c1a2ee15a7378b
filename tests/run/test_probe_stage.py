"""A probe in a run: what its result depends on, and what becomes of its sweeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.probes.base import Input
from qt_bert.probes.registry import probe_named
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import ProbeFiles, RunFolder
from qt_bert.run.stage import StudyContext, run_inputs, run_study
from qt_bert.run.stages import probe_stage

NO_FILES = ProbeFiles()
Run = Callable[..., tuple[str, ...]]


@pytest.fixture
def run(
    fake_probe: None, checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> Run:
    """Run the fake probe as a stage, always going on; returns the names of the stages that ran."""

    def go(
        files: ProbeFiles = NO_FILES,
        needs_base: bool = False,
        uses: tuple[Input, ...] = (),
        **changes: Any,
    ) -> Any:
        arguments = {
            "reader": asdict(ReaderOptions()),
            "dtype": "float32",
            "max_length": None,
            "model_grades": None,
            "resamples": 20,
            "seed": 0,
            "profile": "quick",
            **files.arguments(),
            **changes,
        }
        inputs = run_inputs(checkpoint_of(), pair_file, arguments, "jieba")
        folder = RunFolder.open(tmp_path / "run", inputs, resume=True)
        context = StudyContext(folder=folder, model=checkpoint_of(), pairs=pair_file, files=files)
        stage = probe_stage(replace(probe_named("fake"), needs_base=needs_base, uses=uses))
        return run_study([stage], context)

    return go


def sweeps_run(tmp_path: Path) -> int:
    """How often the probe added to its sweeps since they were last removed."""
    return (tmp_path / "run" / "sweeps" / "fake" / "runs.txt").read_text().count("run")


def test_its_result_and_guards_stand_in_the_run(run: Run, tmp_path: Path) -> None:
    assert run() == ("probe:fake",)
    assert ProbeResult.read(tmp_path / "run" / "probes" / "fake.json").probe == "fake"
    record = RunFolder.read(tmp_path / "run").record
    assert record.guards == {"probe:fake": {"difference": 1e-6}}
    assert record.stages["probe:fake"].folders == ("sweeps/fake",)
    assert run() == ()


@pytest.mark.parametrize("change", [{"profile": "full"}, {"seed": 1}, {"resamples": 30}])
def test_a_changed_argument_starts_its_sweeps_anew(
    run: Run, tmp_path: Path, change: dict[str, Any]
) -> None:
    run()
    assert run(**change) == ("probe:fake",)
    assert sweeps_run(tmp_path) == 1


def test_other_discovery_pairs_change_the_result(run: Run, pair_file: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.tsv"
    dev.write_bytes(pair_file.read_bytes())
    files = ProbeFiles(discovery=dev)
    assert (run(), run(files), run(files)) == (("probe:fake",), ("probe:fake",), ())
    dev.write_text("query\ttitle\tgrade\n狗\t猫\t1\n", encoding="utf-8")
    assert run(files) == ("probe:fake",)
    settings = json.loads((tmp_path / "run" / "probes" / "fake.json").read_text())["settings"]
    assert settings["discovery"]["n_pairs"] == 1


def test_a_base_counts_only_where_it_is_needed(
    run: Run, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    files = ProbeFiles(base=checkpoint_of(labels=3))
    assert (run(), run(files)) == (("probe:fake",), ())
    assert run(needs_base=True) == ()
    assert not (tmp_path / "run" / "probes" / "fake.json").exists()
    assert run(files, needs_base=True) == ("probe:fake",)


def test_a_second_model_counts_only_where_it_is_read(
    run: Run, checkpoint_of: Callable[..., Path]
) -> None:
    files = ProbeFiles(second=checkpoint_of(labels=3))
    assert files.arguments()["second"] == ProbeFiles(base=files.second).arguments()["base"]
    assert (run(), run(files)) == (("probe:fake",), ())
    assert (run(uses=("second",)), run(files, uses=("second",))) == (("probe:fake",),) * 2


def test_sweeps_of_a_killed_stage_are_gone_on_with(run: Run, tmp_path: Path) -> None:
    run(seed=5)
    stop = tmp_path / "run" / "sweeps" / "stop"
    stop.write_text("")
    with pytest.raises(KeyboardInterrupt):
        run()
    stop.unlink()
    assert run() == ("probe:fake",)
    assert sweeps_run(tmp_path) == 2
