"""The shelf: which models it offers, each opened once, and which one another was tuned from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.inspection import inspected as module
from qt_bert.inspection.inspected import MOST_OPEN, Shelf, checkpoints_in
from qt_bert.shipped import GRADED, shipped


def test_classifiers_come_first_and_what_ships_last(shelf: Shelf) -> None:
    assert shelf.names == ("score", "tuned", "before", "graded", "student", "pretrained")


def test_what_ships_alone() -> None:
    shelf = Shelf()
    assert shelf.names == ("graded", "student", "pretrained")
    assert shelf.base_of("graded") == "pretrained" and shelf.base_of("pretrained") is None


def test_one_checkpoint_by_its_own_folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Shelf(models / "score").names == ("score", "graded", "student", "pretrained")
    monkeypatch.chdir(models / "score")
    assert Shelf(Path()).names[0] == "score"


def test_the_shipped_folder_is_not_offered_twice() -> None:
    assert Shelf(shipped(GRADED).parent).names == ("graded", "student", "pretrained")
    assert Shelf(shipped(GRADED).parent).base_of("graded") == "pretrained"


def test_a_model_called_like_one_that_ships(models: Path, tmp_path: Path) -> None:
    for name in ("graded", "pretrained"):
        shutil.copytree(models / "tuned", tmp_path / name)
    shelf = Shelf(tmp_path)
    own, ours = ("graded", "pretrained"), ("graded (shipped)", "student", "pretrained (shipped)")
    assert shelf.names == own + ours
    assert shelf.base_of("graded (shipped)") == "pretrained (shipped)"
    assert shelf.base_of("graded") is None


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(CheckpointError, match="no checkpoint here"):
            checkpoints_in(folder)


def test_no_model_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shipped", lambda *names: [])
    with pytest.raises(CheckpointError, match="ships no model"):
        Shelf()


def test_an_unknown_name_is_refused(shelf: Shelf) -> None:
    for ask in (shelf.open, shelf.base_of):
        with pytest.raises(ArgumentError, match="no model '../../etc'.*score, tuned"):
            ask("../../etc")


def test_the_base_is_what_the_training_record_names(shelf: Shelf) -> None:
    assert shelf.base_of("tuned") == "before"
    assert shelf.base_of("before") is None and shelf.base_of("score") is None


def test_the_base_given_counts_for_models_of_its_shape(models: Path) -> None:
    shelf = Shelf(models, base="before")
    assert shelf.base_of("tuned") == "before"
    assert shelf.base_of("score") is None, "it has other layers"
    assert shelf.base_of("graded") == "pretrained"
    with pytest.raises(ArgumentError, match="--base 'nothing': there is score, tuned"):
        Shelf(models, base="nothing")


@pytest.mark.parametrize("record", ["[]", "{", '{"base": ["before"]}', '{"base": "tuned"}'])
def test_a_strange_training_record_names_no_base(models: Path, tmp_path: Path, record: str) -> None:
    shutil.copytree(models / "tuned", tmp_path / "tuned")
    (tmp_path / "tuned" / "training.json").write_text(record)
    assert Shelf(tmp_path).base_of("tuned") is None


def test_a_model_is_opened_once_for_all(shelf: Shelf) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(shelf.open, ["score"] * 8))
    assert len(found) == 1 and shelf.open("score") in found
    assert shelf.open("score").lock is shelf.open("tuned").lock is shelf.lock


def test_an_encoder_without_classifier_opens_as_the_base_of_its_model(shelf: Shelf) -> None:
    base, tuned = shelf.open("before"), shelf.open("tuned")
    assert not base.classifies and tuned.classifies
    assert base.shape == tuned.shape and base.labels.grades is None
    assert base.encode("狗追猫", "猫追狗") == tuned.encode("狗追猫", "猫追狗")


def test_an_encoder_that_nothing_was_tuned_from_is_refused(models: Path) -> None:
    with pytest.raises(CheckpointError, match="no classifier"):
        Shelf(models / "before").open("before")


def test_the_least_recently_used_is_forgotten(
    checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    for number in range(MOST_OPEN + 1):
        shutil.copytree(checkpoint_of(labels=1), tmp_path / f"m{number}")
    shelf = Shelf(tmp_path)
    first, second = shelf.open("m0"), shelf.open("m1")
    for number in range(2, MOST_OPEN):
        shelf.open(f"m{number}")
    assert shelf.open("m0") is first
    shelf.open(f"m{MOST_OPEN}")
    assert shelf.open("m0") is first
    assert shelf.open("m1") is not second


def test_no_model_is_opened_under_the_lock(models: Path) -> None:
    shelf = Shelf(models)
    with shelf.lock, pytest.raises(RuntimeError, match="under the lock"):
        shelf.open("score")
    opened = shelf.open("score")
    with shelf.lock:
        assert shelf.open("score") is opened


def test_architectures_that_are_no_list_say_nothing(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "tuned", tmp_path / "tuned")
    config = tmp_path / "tuned" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": 3}))
    assert checkpoints_in(tmp_path) == [tmp_path / "tuned"]


def test_models_of_the_same_weights_do_not_share_what_is_kept(models: Path, tmp_path: Path) -> None:
    """Other labels, or another tokenizer, give other answers."""
    for name in ("grades", "levels"):
        shutil.copytree(models / "tuned", tmp_path / name)
    labels = {"grades": [[1], [2], [3], [4, 5], [5]]}
    (tmp_path / "levels" / "qt_bert.json").write_text(json.dumps(labels), encoding="utf-8")
    shelf = Shelf(tmp_path)
    one, other = shelf.open("grades"), shelf.open("levels")
    assert one.sha256 == other.sha256 and one.kept is not other.kept
    assert one.labels.exact and not other.labels.exact
