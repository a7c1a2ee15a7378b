"""Running a command in this process, as a user would see it end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.page.conftest import models  # noqa: F401 (a fixture)


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch, capsys) -> Callable[..., Ended]:
    """`run("score", path, "--out", out)`: exit status, standard output, standard error."""
    from qt_bert.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["qt-bert", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            status: object = 0
        except SystemExit as ended:
            status = ended.code
        captured = capsys.readouterr()
        return Ended(int(status or 0), captured.out, captured.err)

    return call


@pytest.fixture
def planned(checkpoint_of, tmp_path):
    """A teacher and a plan on disk that keeps two of its layers, as options, and an --out."""
    from qt_bert.models.opening import open_checkpoint
    from qt_bert.models.pruned import reference_of
    from qt_bert.results.kept import KeptLayer
    from qt_bert.results.plan import Budget, Plan, layer_map

    folder = checkpoint_of("bert", layers=3, heads=4, hidden=32)
    teacher = open_checkpoint(folder)
    kept = (KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=2, heads=()))
    Plan(
        teacher=reference_of(teacher.model, teacher.family, teacher.name, teacher.sha256),
        budget=Budget(kind_of="layers", value=2, share=False, asked="layers=2"),
        replacement="zero",
        kept=kept,
        layer_map=layer_map(kept, 3),
    ).write(tmp_path / "plan.json")
    return ["--plan", tmp_path / "plan.json", "--model", folder, "--out", tmp_path / "small"]
