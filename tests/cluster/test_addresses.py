"""The command at a cluster that is there: found by its address or without, and refused by it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.command import QT_BERT
from benchmarks.common.nodes import nodes
from tests.cluster.rays import write_day

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("alone_with_ray")]


@pytest.fixture(scope="module")
def address(alone_with_ray: None) -> Iterator[str]:
    """A head without CPUs, and two nodes with one each."""
    with nodes() as started:
        started.add(2)
        yield started.address


@pytest.fixture
def score(checkpoint_of: Any, tmp_path: Path) -> Sequence[str]:
    """The command, but for the cluster."""
    day = write_day(tmp_path / "day")
    options = ["--engine", "ray", "--model", str(checkpoint_of()), "--max-rejects", "0.05"]
    return ["score", str(day), "--out", str(tmp_path / "out"), *options]


def ended(command: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*QT_BERT, *command],
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_dry_run_counts_the_machines_of_the_cluster(
    address: str, score: Sequence[str], tmp_path: Path
) -> None:
    said = ended([*score, "--address", address, "--dry-run", "--price-per-hour", "2"])
    assert said.returncode == 0, said.stderr
    assert "actors         2 on 2 machines" in said.stdout
    assert "a machine with 1 actors" in said.stdout
    assert not (tmp_path / "out").exists()


def test_auto_finds_the_cluster_of_this_machine(
    address: str, score: Sequence[str], tmp_path: Path
) -> None:
    said = ended([*score, "--address", "auto"])
    assert said.returncode == 0, said.stderr
    assert "297 pairs scored" in said.stderr
    assert '"address": "auto"' in (tmp_path / "out" / "run.json").read_text()


def test_another_token_is_refused_with_what_to_do(address: str, score: Sequence[str]) -> None:
    said = ended([*score, "--address", address], RAY_AUTH_TOKEN="0" * 64)
    assert said.returncode == 2
    assert "put the cluster's own into RAY_AUTH_TOKEN or ~/.ray/auth_token" in said.stderr
    assert said.stderr.count("\n") == 1
    assert "Traceback" not in said.stderr
