"""Where inputs, models and outputs lie: a path of this machine, or an address of a file system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

from qt_bert.pairs.formats.opening import Location

Content = bytes | Callable[[IO[bytes]], object]
"""The bytes of a file, or a function that writes them to an open one."""


class Stored(NamedTuple):
    """A file where it lies, its bytes, and when it was last written (None where nobody says)."""

    place: Place
    size: int
    mtime_ns: int | None


class Place(ABC):
    """A file or folder; `str()` gives what the user wrote.

    Where a method takes a `name`, it speaks of what lies under the place by this name, with `/`
    between its parts. What cannot be read or written is an OSError, with the system's words.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of its path, with the suffixes."""

    @property
    @abstractmethod
    def location(self) -> Location:
        """As the readers of pairs take it: a path, or the place itself."""

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """Equal for two places that are the same file."""

    @abstractmethod
    def join(self, name: str) -> Place:
        """What lies under this place by `name`."""

    @abstractmethod
    def open_input(self, name: str = "") -> IO[bytes]:
        """The file's bytes, seekable. Raises OSError."""

    @abstractmethod
    def exists(self, name: str = "") -> bool:
        """Whether there is a file or folder. Raises OSError where it cannot be known."""

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether it is there, and no file. Raises OSError where it cannot be known."""

    @abstractmethod
    def stat(self) -> Stored:
        """Size and time of the file. Raises OSError."""

    @abstractmethod
    def list(self) -> dict[str, Stored]:
        """All files in the folder and the folders in it, hidden ones too, by their names under it.

        They are sorted by path. Raises OSError.
        """

    @abstractmethod
    def write(self, name: str, content: Content) -> None:
        """Put a file in its place at once and whole, with the folders it needs. Raises OSError.

        When it raises, or the process is killed, the old file is there, or none.
        """

    @abstractmethod
    def delete(self, name: str = "") -> None:
        """Remove a file, if there is one. Raises OSError."""

    @abstractmethod
    def local_copy(self, cache: Path) -> Path:
        """A local folder with what lies here: the folder itself, or a copy of it under `cache`.

        Raises OSError, and ArgumentError where there is nothing to copy.
        """

    def size(self, name: str = "") -> int:
        """The bytes of the file. Raises OSError."""
        return (self.join(name) if name else self).stat().size

    def read_bytes(self, name: str = "") -> bytes:
        """The whole file. Raises OSError."""
        with self.open_input(name) as handle:
            return handle.read()

    def read_text(self, name: str = "") -> str:
        """The whole file, UTF-8. Raises OSError, UnicodeDecodeError."""
        return self.read_bytes(name).decode("utf-8")

    def write_text(self, name: str, text: str) -> None:
        """As `write`, in UTF-8."""
        self.write(name, text.encode("utf-8"))


def as_bytes(content: Content) -> bytes:
    """The content whole, in memory."""
    if isinstance(content, bytes):
        return content
    made = BytesIO()
    content(made)
    return made.getvalue()
