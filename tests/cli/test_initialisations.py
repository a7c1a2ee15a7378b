"""`qt-bert initialisations`: faults are one line, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.cli import app, register  # noqa: F401 - declares the commands
from qt_bert.errors import ArgumentError, CheckpointError, PairFileError, QtBertError

Build = Callable[..., Path]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["--pairs", "none.tsv"], ArgumentError, "no such file"),
        (["--lr", "3"], ArgumentError, "--lr 3"),
        (["--dtype", "int8"], ArgumentError, "--dtype"),
        (["--dev", "{pairs}", "--test", "{pairs}"], PairFileError, "also stand in"),
        (["--pairs", "{pairs}", "--dev", "{pairs}"], PairFileError, "also stand in"),
        (["--base", "{classifier}"], CheckpointError, "fine-tuned"),
    ],
)
def test_faults_are_named(
    checkpoint_of: Build,
    pair_file: Path,
    tmp_path: Path,
    arguments: list[str],
    error: type[QtBertError],
    says: str,
) -> None:
    from typer.testing import CliRunner

    given = [one.format(pairs=pair_file, classifier=checkpoint_of()) for one in arguments]
    out = tmp_path / "study"
    result = CliRunner().invoke(app, ["initialisations", "--out", str(out), *given])
    assert isinstance(result.exception, error)
    assert says in str(result.exception)
    assert not out.exists()
