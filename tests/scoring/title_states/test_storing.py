"""Storing title states: equal titles once, in parts, going on after a kill."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import CheckpointError, PairFileError, RunFolderError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.scoring import title_folder, title_run
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.title_folder import MANIFEST, Manifest, open_states
from qt_bert.scoring.title_run import StoreReport, store_titles
from qt_bert.scoring.title_states import states_of

READER = ReaderOptions()


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch) -> None:
    monkeypatch.setattr(title_run, "WINDOW", 3)


def store(path: Path, scorer: Scorer, out: Path, **options: object) -> StoreReport:
    given: dict[str, object] = {"part_bytes": 1000} | options
    return store_titles(path, READER, scorer, out, **given)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_what_is_opened_is_what_memory_holds(offline_scorer, title_file, tmp_path, dtype):
    scorer, titles = offline_scorer(), title_file.read_text(encoding="utf-8").splitlines()
    report = store(title_file, scorer, tmp_path / "states", dtype=dtype)
    states = open_states(tmp_path / "states", scorer.checkpoint)
    manifest = report.manifest
    assert (manifest.titles, manifest.rows, manifest.truncated) == (8, 9, 1)
    assert len(manifest.parts) == {"float32": 2, "float16": 2, "int8": 1}[dtype]
    assert states.titles == 8 and states.dtype == dtype
    held = states_of(scorer, titles, states.dtype)
    assert states.bytes_per_title == held.bytes_per_title
    texts = [("狗追猫", title) for title in titles]
    read = [scorer.reading(one).logits(texts) for one in (states, held)]
    # One batch or several: the same up to rounding, or to the step that rounding tips over.
    np.testing.assert_allclose(*read, atol={"float32": 1e-5, "float16": 0.01, "int8": 0.05}[dtype])
    assert not list((tmp_path / "states").glob("rejects*"))


def test_states_are_mapped_into_memory(offline_scorer, title_file, tmp_path):
    scorer = offline_scorer()
    store(title_file, scorer, tmp_path / "states")
    states = open_states(tmp_path / "states", scorer.checkpoint)
    assert all(isinstance(part.packed().values.base, np.memmap) for part in states.parts)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("written", [0, 1, 2, 4, 5, 7])
def test_a_killed_run_goes_on_to_the_same_bytes(
    offline_scorer, title_file, tmp_path, monkeypatch, dtype, written
):
    scorer, write, out = offline_scorer(), title_folder._write, tmp_path / "killed"
    store(title_file, scorer, tmp_path / "whole", dtype=dtype, part_bytes=400)
    done: list[Path] = []

    def killed_later(path, array):
        if len(done) == written:
            (out / f".{path.name}.1.tmp").write_bytes(b"half")
            raise KeyboardInterrupt
        done.append(path)
        return write(path, array)

    with monkeypatch.context() as patch:
        patch.setattr(title_folder, "_write", killed_later)
        with pytest.raises(KeyboardInterrupt):
            store(title_file, scorer, out, dtype=dtype, part_bytes=400)
    with pytest.raises(RunFolderError, match="are not finished; run the same"):
        open_states(out, scorer.checkpoint)
    with pytest.raises(RunFolderError, match="not finished; --resume goes on"):
        store(title_file, scorer, out, dtype=dtype, part_bytes=400)
    store(title_file, scorer, out, dtype=dtype, part_bytes=400, resume=True)
    assert content(out) == content(tmp_path / "whole")


def test_finished_work_is_left_as_it_is(offline_scorer, title_file, tmp_path):
    scorer, out = offline_scorer(), tmp_path / "states"
    first = store(title_file, scorer, out)
    before = content(out)
    assert store(title_file, scorer, out, resume=True) == StoreReport(first.manifest, True)
    with pytest.raises(RunFolderError, match="holds title states; --resume"):
        store(title_file, scorer, out)
    assert content(out) == before
    title_file.write_text("狗\n", encoding="utf-8")
    assert store(title_file, scorer, out, overwrite=True).manifest.titles == 1
    assert len(list(out.glob("part-*"))) == 3


def test_only_the_same_work_is_gone_on_with(
    offline_scorer, title_file, tmp_path, offline_checkpoint_of
):
    scorer, out = offline_scorer(), tmp_path / "states"
    store(title_file, scorer, out)
    other = Scorer(open_checkpoint(offline_checkpoint_of("bert", below=2, layers=3, seed=5)))
    block = Scorer(open_checkpoint(offline_checkpoint_of("bert", below=1, layers=3)))
    for given, options, said in (
        (other, {}, "another model;"),
        (block, {}, "another block;"),
        (scorer, {"dtype": "int8"}, "another --dtype;"),
    ):
        with pytest.raises(RunFolderError, match=said):
            store(title_file, given, out, resume=True, **options)
    title_file.write_text("狗\n", encoding="utf-8")
    with pytest.raises(RunFolderError, match="another file of titles;"):
        store(title_file, scorer, out, resume=True)
    store(title_file, scorer, out, overwrite=True)
    (out / "part-00000.keys.npy").write_bytes(b"")
    with pytest.raises(RunFolderError, match="0 bytes, where"):
        store(title_file, scorer, out, resume=True)


def test_a_folder_of_something_else_is_left_alone(offline_scorer, title_file, tmp_path):
    scorer = offline_scorer()
    for out in (scorer.checkpoint.folder, title_file):
        for flags in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(RunFolderError, match="holds something else|is a file"):
                store(title_file, scorer, out, **flags)


def test_a_model_that_is_not_offline(checkpoint_of, title_file, tmp_path):
    plain = Scorer(open_checkpoint(checkpoint_of()))
    with pytest.raises(CheckpointError, match="train --offline-layers"):
        store(title_file, plain, tmp_path / "states")
    assert not (tmp_path / "states").exists()


def test_a_full_disk_is_said_and_gone_on_from(offline_scorer, title_file, tmp_path, monkeypatch):
    scorer, write, out = offline_scorer(), title_folder._write, tmp_path / "states"

    def full_later(path, array):
        if path.name.startswith("part-00001"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, array)

    with monkeypatch.context() as patch:
        patch.setattr(title_folder, "_write", full_later)
        with pytest.raises(RunFolderError, match="the disk is full .*--resume"):
            store(title_file, scorer, out)
    assert len(Manifest.read(out).parts) == 1
    assert store(title_file, scorer, out, resume=True).manifest.titles == 8


def test_rejects_are_counted(offline_scorer, title_file, tmp_path):
    with open(title_file, "a", encoding="utf-8") as handle:
        handle.write("  \n猫\n")
    out = tmp_path / "states"
    manifest = store(title_file, offline_scorer(), out).manifest
    assert (manifest.rows, manifest.rejected) == (10, 1)
    assert "empty title" in (out / title_run.REJECTS).read_text(encoding="utf-8")
    assert json.loads((out / MANIFEST).read_text(encoding="utf-8"))["rejected"] == 1


def test_a_file_of_bad_lines_leaves_nothing_complete(offline_scorer, tmp_path):
    path = tmp_path / "titles.txt"
    path.write_text(" \n \n", encoding="utf-8")
    with pytest.raises(PairFileError):
        store(path, offline_scorer(), tmp_path / "states")
    assert not Manifest.read(tmp_path / "states").complete


def test_nothing_is_left_half_begun(offline_scorer, tmp_path):
    out = tmp_path / "states"
    out.mkdir()  # a folder that holds only what a killed start left is vacant
    (out / f".{MANIFEST}.77.tmp").write_bytes(b"{")
    path = tmp_path / "titles.txt"
    path.write_text("狗\n", encoding="utf-8")
    store(path, offline_scorer(), out)
    assert Manifest.read(out).complete and not list(out.glob(".*.tmp"))
