"""All arms, small: trained, judged, taken up, and told."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.files import read_json
from qt_bert.planning.arms import rows_of, run_arms, summary_of
from qt_bert.results.plan import ArmsFile
from qt_bert.training.recipes import PairSource

SEEDS = {"plan": 2, "even": 2, "grades": 1, "middle": 1}
RUNS = {"plan-0", "plan-1", "even-0", "even-1", "grades-0", "middle-0"}


def finished(folder):
    return {path.name for path in folder.iterdir() if not path.name.endswith(".training")}


def test_arms_are_trained_compared_and_taken_up(job_of, settings, tmp_path, pair_file):
    job, out = job_of(), tmp_path / "arms"
    settings = replace(settings, max_steps=2)
    found = run_arms(job, out, settings, seeds=SEEDS)
    assert finished(out / "runs") == RUNS
    assert {path.name for path in (out / "logits").iterdir()} == {f"{r}.dev.npy" for r in RUNS}
    assert np.load(out / "logits" / "even-1.dev.npy").shape == (8, 5)
    assert found.steps == 2 and [(one.arm, one.seed) for one in found.runs][:4] == [
        ("plan", 0),
        ("even", 0),
        ("grades", 0),
        ("middle", 0),
    ]
    assert {(one.rival, one.seeds) for one in found.differences} == {
        ("even", 2),
        ("grades", 1),
        ("middle", 1),
    }
    assert len({one.parameters for one in found.arms}) == 1
    assert ArmsFile.read(out / "arms.json") == found
    kept = (out / "runs" / "plan-0" / "model.safetensors").stat().st_mtime_ns
    shutil.rmtree(out / "runs" / "even-1")
    validation = tmp_path / "validation.tsv"
    shutil.copy(pair_file, validation)
    again = run_arms(
        job, out, settings, seeds=SEEDS, validation=PairSource(validation), resume=True
    )
    assert (out / "runs" / "plan-0" / "model.safetensors").stat().st_mtime_ns == kept
    assert [one for one in again.differences if one.on == "dev"] == list(found.differences)
    assert again.pairs["validation"].name == "validation.tsv"
    assert len(rows_of(again)) == 1 + len(again.differences) == 13
    assert again.summary == summary_of(again.differences)
    assert "成对种子" in again.summary.zh and "paired seeds" in again.summary.en
    with pytest.raises(RunFolderError, match="not empty"):
        run_arms(job, out, settings, seeds=SEEDS)


def test_arms_are_judged_on_one_file(job_of, settings, tmp_path):
    with pytest.raises(ArgumentError, match="--arms needs --dev"):
        run_arms(replace(job_of(), dev=None), tmp_path / "arms", settings)


def test_a_file_that_is_not_there_is_told_before_anything_is_trained(job_of, settings, tmp_path):
    gone = PairSource(tmp_path / "gone.tsv")
    with pytest.raises(PairFileError, match="gone.tsv"):
        run_arms(job_of(), tmp_path / "arms", settings, seeds=SEEDS, validation=gone)
    assert not (tmp_path / "arms").exists()


def test_a_teacher_of_one_output_has_no_arm_on_grades_alone(job_of, settings, tmp_path):
    once = dict.fromkeys(SEEDS, 1)
    impatient = replace(settings, max_steps=4, evaluations=4, patience=1)
    found = run_arms(job_of(labels=1), tmp_path / "arms", impatient, seeds=once)
    assert [one.name for one in found.arms] == ["plan", "even", "middle"]
    facts = [read_json(path) for path in (tmp_path / "arms" / "runs").glob("*/training.json")]
    assert [one["steps"] for one in facts] == [4] * 3  # all steps, for all arms
    assert list((tmp_path / "arms" / "runs").glob("*.training/state.safetensors")) == []


def test_another_folder_is_left_alone(job_of, settings, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(RunFolderError, match="not empty"):
        run_arms(job_of(), tmp_path, settings, seeds=SEEDS, resume=True)
