"""Models that a study fine-tuned from random weights: those whose weights are there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.errors import CheckpointError, RunFolderError
from qt_bert.probes.encoded import tuned
from qt_bert.results.initialisations import FileRef, Record, Try

Build = Callable[..., Path]


def run(arm: str, folder: str | None) -> Try:
    return Try(
        arm=arm, seed=0, rate=None, discovery=None, step=0, steps=0, seconds=0.0, folder=folder
    )  # type: ignore[arg-type]


@pytest.fixture
def study(tmp_path: Path, checkpoint_of: Build, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two final models from random weights, one of them without weights; one that was not final."""
    tries = (run("random", "a"), run("random", "gone"), run("tuned", "a"), run("random", "b"))
    record = Record(
        base=FileRef(name="base", sha256=""),
        train=(),
        splits={},
        metric="qwk",
        grades=(),
        tries=tries,
        final=(0, 1, 2),
    )
    monkeypatch.setattr(
        tuned, "read_initialisations", lambda folder: SimpleNamespace(record=record)
    )
    for name in ("a", "b"):
        shutil.copytree(checkpoint_of("bert"), tmp_path / name)
    return tmp_path


def test_final_models_from_random_weights_are_opened(study: Path, checkpoint_of: Build) -> None:
    like = open_checkpoint(checkpoint_of("bert", seed=3))
    assert [one.folder for one in tuned.tuned_from_random(study, like)] == [study / "a"]


def test_models_of_other_tokens_are_refused(study: Path, checkpoint_of: Build) -> None:
    like = open_checkpoint(checkpoint_of("xlm-roberta"))
    with pytest.raises(CheckpointError, match="--initialisations"):
        tuned.tuned_from_random(study, like)


def test_without_a_study_there_are_none(checkpoint_of: Build, tmp_path: Path) -> None:
    like = open_checkpoint(checkpoint_of("bert"))
    assert tuned.tuned_from_random(None, like) == []
    with pytest.raises(RunFolderError):
        tuned.tuned_from_random(tmp_path, like)
