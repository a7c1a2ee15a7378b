"""Where the files of a run lie: the few things that its ledger does with them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write, is_vacant


class Storage(Protocol):
    """A folder. Names are relative to it, with `/` between their parts; `str()` is what was asked for.

    `appends` says whether a file can grow; where it cannot, `append` is never called.
    """

    appends: bool

    def is_folder(self) -> bool:
        """Whether it is there, and no file."""

    def is_vacant(self) -> bool:
        """Whether it is new, empty, or holds only what a killed start left behind."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The bytes of each file that lies in `folder` itself, hidden ones too, by its name there."""

    def open(self, name: str) -> BinaryIO:
        """A file for reading, in which one can seek. Raises OSError."""

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put a file in its place at once, whole and to stay, with its folder. Raises OSError."""

    def append(self, name: str, data: bytes) -> None:
        """Add `data` to a file, which may be new, to stay. Raises OSError; some of it may be there."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that it holds, if there is one."""


@dataclass(frozen=True)
class LocalStorage:
    """A folder of this machine's file system."""

    path: Path
    appends = True

    def __str__(self) -> str:
        return str(self.path)

    def is_folder(self) -> bool:
        return self.path.is_dir()

    def is_vacant(self) -> bool:
        return is_vacant(self.path)

    def exists(self, name: str) -> bool:
        return (self.path / name).is_file()

    def sizes(self, folder: str) -> dict[str, int]:
        found = {}
        with suppress(FileNotFoundError), os.scandir(self.path / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # a temporary file that has got its own name
                    if entry.is_file():
                        found[entry.name] = entry.stat().st_size
        return found

    def open(self, name: str) -> BinaryIO:
        return open(self.path / name, "rb")

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        path = self.path / name
        with atomic_write(path) as temporary, open(temporary, "wb") as handle:
            handle.writelines(chunks)
        _sync(path.parent)

    def append(self, name: str, data: bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as handle:
            begun = handle.tell() > 0
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        if not begun:
            _sync(path.parent)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def remove_folder(self, name: str) -> None:
        shutil.rmtree(self.path / name, ignore_errors=True)


@contextmanager
def telling_of_faults(storage: Storage, so_far: str = "nothing is lost") -> Iterator[None]:
    """Turn an OSError into a RunFolderError that says how far the run is, and what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what, first = (
            ("the disk is full", "make room")
            if full
            else (f"cannot be read or written ({error})", "see to it")
        )
        raise RunFolderError(
            f"{storage}: {what}; {so_far}; {first}, and --resume goes on"
        ) from error


def _sync(folder: Path) -> None:
    """Make the names in `folder` outlive a loss of power."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
