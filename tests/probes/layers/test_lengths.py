"""The length from models without pretraining: fits without a fold, their spread, which models there are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qt_bert.errors import CheckpointError, RunFolderError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.layers import lengths
from qt_bert.probes.layers.decode import decode
from qt_bert.probes.layers.examples import Examples, Task
from qt_bert.probes.layers.lengths import FOLDS, Length, Lengths, length
from qt_bert.probes.layers.property import LENGTH
from qt_bert.probes.layers.scores import Sums
from qt_bert.results.initialisations import FileRef, Record, Try
from tests.probes.layers import planted

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
        lengths, "read_initialisations", lambda folder: SimpleNamespace(record=record)
    )
    for name in ("a", "b"):
        shutil.copytree(checkpoint_of("bert"), tmp_path / name)
    return tmp_path


def test_final_models_from_random_weights_are_opened(study: Path, checkpoint_of: Build) -> None:
    like = open_checkpoint(checkpoint_of("bert", seed=3))
    assert [one.folder for one in lengths.tuned_from_random(study, like)] == [study / "a"]


def test_models_of_other_tokens_are_refused(study: Path, checkpoint_of: Build) -> None:
    like = open_checkpoint(checkpoint_of("xlm-roberta"))
    with pytest.raises(CheckpointError, match="--initialisations"):
        lengths.tuned_from_random(study, like)


def test_without_a_study_there_are_none(checkpoint_of: Build, tmp_path: Path) -> None:
    like = open_checkpoint(checkpoint_of("bert"))
    assert lengths.tuned_from_random(None, like) == []
    with pytest.raises(RunFolderError):
        lengths.tuned_from_random(tmp_path, like)


def halves() -> tuple[Task, dict[int, np.ndarray]]:
    """A number that stands, noisily, in the first dimension of every layer."""
    made, values = [], {}
    for seed, count in ((1, 60), (2, 40)):
        at = planted.places(count, "text", per_text=1)
        x = planted.noise(count, seed)
        labels = np.random.default_rng(seed).standard_normal(count)
        x[:, :, 0] += labels
        made.append(Examples(LENGTH, at, labels))
        values[id(at)] = x
    return planted.task(LENGTH, *made), values


def test_the_length_is_read_as_any_property_is_and_without_each_fold() -> None:
    task, values = halves()
    read = planted.reader(values)
    found = length(read, task)
    whole = decode(read, [task], draws=0, seed=0)["length"].own
    assert found.own.score() == pytest.approx(whole.score(), abs=1e-5)
    assert len(found.without) == FOLDS
    scores = np.array([one.score() for one in found.without])
    assert (scores.std(axis=0) > 1e-4).all()
    assert scores.mean(axis=0) == pytest.approx(whole.score(), abs=0.1)


def sums(score: float) -> Sums:
    """R² of `score` in r0 and r1, alike in four queries."""
    return Sums(np.full((4, 2), 1 - score), np.ones((4, 2)), True)


def test_how_far_models_are_ahead_holds_the_chance_of_the_pairs_fitted() -> None:
    task, _ = halves()
    folds = (0.5, 0.6, 0.7, 0.6, 0.6)
    base = Length(sums(0.4), tuple(sums(0.4) for _ in folds))
    other = Length(sums(0.6), tuple(map(sums, folds)))
    found = Lengths(task, base, (other, other), ()).ahead((other, other), "a", 4000, 0)
    assert found.value == pytest.approx(0.2)
    # √(4/5 · Σ (θ − mean)²) of the folds' leads .1, .2, .3, .2, .2
    assert found.samples.std() == pytest.approx(np.sqrt(4 / 5 * 0.02), rel=0.05)
