from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path) -> Write:
    """Write text (as UTF-8, line ends untouched) or bytes to a file of the test's own folder."""

    def to_file(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return path

    return to_file
