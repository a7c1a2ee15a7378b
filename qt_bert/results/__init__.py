"""Result files as dataclasses, to and from JSON, and what their names mean in words."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from qt_bert.codec import encode, read_result
from qt_bert.files import write_json


class ResultFile:
    """A dataclass that is stored as a JSON file of its own."""

    __slots__ = ()

    def write(self, path: Path) -> None:
        """Store it, atomically."""
        write_json(path, encode(self))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a stored one. Raises RunFolderError naming the key that does not fit."""
        return read_result(cls, path)
