"""What the tests with Ray share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock


@pytest.fixture(scope="module")
def alone_with_ray() -> Iterator[None]:
    """One cluster at a time, whatever else runs tests here: two that start at once starve each other,
    and Ray gives up on a node that is not there after 30 seconds."""
    with FileLock(Path(tempfile.gettempdir()) / "qt-bert-tests-with-ray.lock"):
        yield
