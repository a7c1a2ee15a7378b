"""Running a command in this process, as a user would see it end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch, capsys) -> Callable[..., Ended]:
    """`run("score", path, "--out", out)`: exit status, standard output, standard error."""
    from qt_bert.cli import main

    def call(*arguments: str | Path) -> Ended:
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
