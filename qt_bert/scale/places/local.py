"""A place of this machine's file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qt_bert.files import atomic_write
from qt_bert.scale.places.place import Content, Place, Stored


@dataclass(frozen=True)
class LocalPlace(Place):
    """A path, as the user wrote it."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """The last part of its path, with the suffixes."""
        return Path(self.text).name

    @property
    def location(self) -> Path:
        """The path."""
        return Path(self.text)

    @property
    def key(self) -> tuple[str, ...]:
        """The path without links and relative parts."""
        return ("local", os.path.realpath(self.text))

    def join(self, name: str) -> LocalPlace:
        """What lies under this place by `name`."""
        return LocalPlace(str(self._at(name)))

    def open_input(self, name: str = "") -> IO[bytes]:
        """The file's bytes, seekable. Raises OSError."""
        return open(self._at(name), "rb")

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or folder."""
        return self._at(name).exists()

    def is_folder(self) -> bool:
        """Whether it is there, and no file."""
        return self.location.is_dir()

    def stat(self) -> Stored:
        """Size and time of the file. Raises OSError."""
        found = self.location.stat()
        return Stored(self, found.st_size, found.st_mtime_ns)

    def list(self) -> dict[str, Stored]:
        """All files in the folder and the folders in it, links followed. Raises OSError.

        A link that leads nowhere is a file, too, which cannot be read.
        """
        found = {}
        for name in sorted(self._names(), key=_parts):
            with suppress(FileNotFoundError):  # gone since it was listed
                found[name] = self.join(name)._listed()
        return found

    def write(self, name: str, content: Content) -> None:
        """Through a temporary file beside it. Raises OSError."""
        with atomic_write(self._at(name)) as temporary, open(temporary, "wb") as handle:
            if isinstance(content, bytes):
                handle.write(content)
            else:
                content(handle)

    def delete(self, name: str = "") -> None:
        """Remove a file, if there is one. Raises OSError."""
        self._at(name).unlink(missing_ok=True)

    def local_copy(self, cache: Path) -> Path:
        """The path itself."""
        return self.location

    def _listed(self) -> Stored:
        try:
            return self.stat()
        except OSError:
            found = self.location.lstat()
            return Stored(self, found.st_size, found.st_mtime_ns)

    def _at(self, name: str) -> Path:
        return Path(self.text, name)

    def _names(self) -> Iterator[str]:
        seen: set[str] = set()
        for folder, below, files in os.walk(self.text, onerror=_raise, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link that leads back to where we have been
                below.clear()
                continue
            seen.add(real)
            for file in files:
                path = Path(folder, file)
                if path.is_file() or (path.is_symlink() and not path.exists()):
                    yield path.relative_to(self.text).as_posix()


def _parts(name: str) -> list[str]:
    return name.split("/")


def _raise(error: OSError) -> None:
    raise error
