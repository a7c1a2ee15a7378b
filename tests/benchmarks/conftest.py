"""Benchmarks as they are run by path: from their own folder."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _beside_the_benchmarks(monkeypatch) -> None:
    """Benchmarks import each other as the folder's own modules."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
