"""Running a command in this process, as a user would see it end."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.conftest import CHARACTERS, write_pairs
from tests.page.conftest import models  # noqa: F401 (a fixture)


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def short_sample(monkeypatch) -> None:
    """A dry run times a twentieth of a second."""
    monkeypatch.setattr("qt_bert.cluster.estimate.SAMPLE_SECONDS", 0.05)


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
def refused(run) -> Callable[..., Ended]:
    """`refused(words, *arguments)`: the command ends with status 2 and an error with these words."""

    def call(words, *arguments):
        ended = run(*arguments)
        assert ended.status == 2 and words in ended.err and "Traceback" not in ended.err, ended
        return ended

    return call


@pytest.fixture
def many_pairs(tmp_path):
    """48 graded pairs of 24 queries."""
    rng, rows = np.random.default_rng(0), []
    for place in range(24):
        query = "".join(rng.choice(list(CHARACTERS), 5)) + str(place)
        for _ in range(2):
            title = query[:3] + "".join(rng.choice(list(CHARACTERS), rng.integers(4, 12)))
            rows.append((query, title, rng.integers(1, 6)))
    return write_pairs(tmp_path / "many.tsv", rows)


@pytest.fixture
def planned(checkpoint_of, tmp_path):
    """A teacher and a plan on disk that keeps two of its layers, as options, and an --out."""
    from qt_bert.models.opening import open_checkpoint
    from qt_bert.results.kept import KeptLayer
    from tests.planning.conftest import plan_by_hand

    folder = checkpoint_of("bert", layers=3, heads=4, hidden=32)
    kept = (KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=2, heads=()))
    plan_by_hand(open_checkpoint(folder), kept).write(tmp_path / "plan.json")
    return ["--plan", tmp_path / "plan.json", "--model", folder, "--out", tmp_path / "small"]
