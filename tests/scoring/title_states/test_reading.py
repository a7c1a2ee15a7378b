"""A folder of title states is opened only by the model that it is of, and only where it is whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import CheckpointError, RunFolderError
from qt_bert.models.checkpoint import Checkpoint, open_checkpoint
from qt_bert.scoring.title_folder import MANIFEST, open_states, tokenizer_sha256
from qt_bert.scoring.title_run import store_titles

STATES = "part-00000.states.npy"


@pytest.fixture
def stored(offline_scorer, title_file, tmp_path) -> tuple[Path, Checkpoint]:
    """A folder of states, and the model."""
    scorer, folder = offline_scorer(), tmp_path / "states"
    store_titles(title_file, ReaderOptions(), scorer, folder, dtype="int8")
    return folder, scorer.checkpoint


def copy_of(checkpoint: Checkpoint, folder: Path) -> Path:
    shutil.copytree(checkpoint.folder, folder)
    return folder


def test_a_file_that_was_cut_short_or_is_gone(stored):
    folder, checkpoint = stored
    open_states(folder, checkpoint)
    os.truncate(folder / STATES, 200)
    with pytest.raises(RunFolderError, match=f"{STATES}: 200 bytes, where .* cut short"):
        open_states(folder, checkpoint)
    (folder / STATES).unlink()
    with pytest.raises(RunFolderError, match=f"{STATES} is missing"):
        open_states(folder, checkpoint)


@pytest.mark.parametrize("array", ["keys", "lengths", "states", "scales"])
def test_a_flipped_bit(stored, array):
    folder, checkpoint = stored
    open_states(folder, checkpoint)
    path = folder / f"part-00000.{array}.npy"
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    with pytest.raises(RunFolderError, match=f"{array}.npy: the bytes differ"):
        open_states(folder, checkpoint)


def test_states_of_another_model(stored, offline_checkpoint_of):
    folder, _ = stored
    for options, said in (
        ({"below": 2, "seed": 9}, "another model than"),
        ({"below": 1}, "another block than"),
        ({"below": 2, "start": 13}, "another block than"),
        ({"below": 2, "tokens": 19}, "another block than"),
    ):
        other = open_checkpoint(offline_checkpoint_of("bert", layers=3, **options))
        with pytest.raises(RunFolderError, match=said):
            open_states(folder, other)


def test_states_of_another_tokenizer(stored, tmp_path):
    folder, checkpoint = stored
    model = copy_of(checkpoint, tmp_path / "model")
    content = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    words = content["model"]["vocab"]
    words["狗"], words["猫"] = words["猫"], words["狗"]
    (model / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RunFolderError, match="another tokenizer than"):
        open_states(folder, open_checkpoint(model))


def test_a_tokenizer_is_the_same_however_it_cuts_and_pads(stored):
    _, checkpoint = stored
    tokenizer, before = checkpoint.tokenizer, tokenizer_sha256(checkpoint.tokenizer)
    tokenizer(["狗追猫", "猫"], truncation=True, max_length=5, padding=True)
    assert tokenizer_sha256(tokenizer) == before


def test_another_activation_is_another_model(stored, tmp_path):
    folder, checkpoint = stored
    model = copy_of(checkpoint, tmp_path / "model")
    assert open_states(folder, open_checkpoint(model)).titles == 8
    content = (model / "config.json").read_text(encoding="utf-8")
    (model / "config.json").write_text(content.replace('"gelu"', '"relu"'), encoding="utf-8")
    with pytest.raises(RunFolderError, match="another model than"):
        open_states(folder, open_checkpoint(model))


def test_a_model_that_is_not_offline(stored, checkpoint_of):
    with pytest.raises(CheckpointError, match="is no offline model"):
        open_states(stored[0], open_checkpoint(checkpoint_of("bert", layers=3)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no title states"),
        ("{", "cannot be read"),
        ("{}", "the key 'of' is missing"),
        ('{"schema": 2}', "expected 1"),
    ],
)
def test_a_folder_without_a_manifest(stored, content, said):
    folder, checkpoint = stored
    (folder / MANIFEST).unlink()
    if content is not None:
        (folder / MANIFEST).write_text(content, encoding="utf-8")
    with pytest.raises(RunFolderError, match=said):
        open_states(folder, checkpoint)
    with pytest.raises(RunFolderError, match="no title states"):
        open_states(folder / "gone", checkpoint)
