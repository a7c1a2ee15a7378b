"""Checkpoints of odd shapes, and exports made once a session."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.models.checkpoint import Checkpoint, smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning import export
from qt_bert.planning.export import export_onnx
from qt_bert.planning.export_session import MODEL, differences, open_session
from qt_bert.planning.prune import save_smaller
from qt_bert.results.kept import KeptLayer

TEXTS = [
    ("北京到上海高铁票价", "上海到北京高铁票价"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("狗", "猫追狗" * 30),
    ("苹果多少钱一斤", ""),
]

MIXED = [
    KeptLayer(layer=0, heads=(1, 3)),
    KeptLayer(layer=1, heads=(), units=5),
    KeptLayer(layer=2, heads=(0,)),
]
"""Irregular heads, a layer without, a narrow one."""


@pytest.fixture(scope="session")
def mixed(smaller_of, tmp_path_factory) -> Checkpoint:
    """The shape that has a bit of all, saved and opened again as `qt-bert export` does."""
    folder = tmp_path_factory.mktemp("smaller") / "mixed"
    return open_checkpoint(save_smaller(folder, smaller_of("bert", MIXED)), compact=True)


@pytest.fixture(scope="session")
def texts() -> list[tuple[str, str]]:
    """Short, long, cut, and without a title."""
    return TEXTS


@pytest.fixture(scope="session")
def smaller_of(checkpoint_of) -> Callable[..., Checkpoint]:
    """`smaller_of("bert", kept)`: what these layers keep of a model of 3 × 4 heads."""

    def build(family, kept):
        teacher = open_checkpoint(checkpoint_of(family, layers=3, heads=4))
        units = {layer.layer: range(layer.units) for layer in kept if layer.units is not None}
        return smaller_checkpoint(teacher, kept, units=units)

    return build


def here(path, stored):
    """An export's check without a process of its own, which takes seconds."""
    return differences(open_session(path), stored)


@pytest.fixture
def checked_here(monkeypatch) -> None:
    monkeypatch.setattr(export, "_in_a_new_process", here)


@pytest.fixture(scope="session")
def exported(checkpoint_of, tmp_path_factory) -> Callable[..., tuple[Checkpoint, Path]]:
    """`exported("electra")`: an opened checkpoint and the folder of its export, made once."""
    made: dict[str, tuple[Checkpoint, Path]] = {}

    def build(family):
        if family not in made:
            checkpoint = open_checkpoint(checkpoint_of(family), compact=True)
            out = tmp_path_factory.mktemp("exports") / family
            with pytest.MonkeyPatch.context() as patch:
                if family != "bert":
                    patch.setattr(export, "_in_a_new_process", here)
                export_onnx(checkpoint, out)
            made[family] = checkpoint, out
        return made[family]

    return build


@pytest.fixture
def traced_already(exported, monkeypatch) -> Checkpoint:
    """A checkpoint whose graph is not traced or run again, which takes seconds: its file is copied."""
    checkpoint, folder = exported("bert")
    monkeypatch.setattr(
        export, "write_onnx", lambda _checkpoint, path: shutil.copy(folder / MODEL, path)
    )
    monkeypatch.setattr(export, "_in_a_new_process", lambda _path, stored: [1e-6] * 14)
    return checkpoint
