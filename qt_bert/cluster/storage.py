"""Where the files of a run lie and what they are called."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from qt_bert.cluster.places import LocalPlace, Place, place_of
from qt_bert.errors import RunFolderError
from qt_bert.files import atomic_write, is_temporary, is_vacant

RUN = "run.json"
PARTITIONS = "partitions.jsonl"
MANIFEST = "manifest"
PARTS = "parts"
REJECTS = "rejects"
"""A list of rejects for each partition that has some, until they are one list."""
REJECTS_LIST = "rejects.tsv"
BEGUN = "begun"
"""The marks of partitions that a worker has begun."""


def part_file(partition: str) -> str:
    """The scored rows of a partition."""
    return f"{PARTS}/part-{partition}.parquet"


def rejects_file(partition: str) -> str:
    """The rejects of a partition."""
    return f"{REJECTS}/{partition}.tsv"


def notes_file(partition: str) -> str:
    """What was found out of a partition that workers died of; beside its marks."""
    return f"{BEGUN}/{partition}.killers.json"


# Where the files of a run lie: the few things that its ledger does with them.


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


# A run folder at an address, as the ledger uses it.


def storage_of(out: str) -> Storage:
    """The folder that `out` names: a path or an address. Raises ArgumentError as `place_of`."""
    place = place_of(out)
    return LocalStorage(Path(out)) if isinstance(place, LocalPlace) else PlaceStorage(place)


@dataclass(frozen=True)
class PlaceStorage:
    """A folder at an address, where files are put whole and never grow."""

    place: Place
    appends = False

    def __str__(self) -> str:
        return str(self.place)

    def is_folder(self) -> bool:
        return self.place.is_folder()

    def is_vacant(self) -> bool:
        if not self.place.exists():
            return True
        return self.place.is_folder() and all(map(is_temporary, self._names("")))

    def exists(self, name: str) -> bool:
        return self.place.exists(name)

    def sizes(self, folder: str) -> dict[str, int]:
        return {name: size for name, size in self._names(folder).items() if "/" not in name}

    def open(self, name: str) -> BinaryIO:
        if not self.place.exists(name):
            raise FileNotFoundError(errno.ENOENT, "no such file", f"{self}/{name}")
        return cast(BinaryIO, self.place.open_input(name))

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        self.place.write(name, b"".join(chunks))

    def append(self, name: str, data: bytes) -> None:
        raise OSError(errno.EROFS, "files cannot grow at an address", f"{self}/{name}")

    def remove(self, name: str) -> None:
        self.place.delete(name)

    def remove_folder(self, name: str) -> None:
        for below in self._names(name):
            self.place.delete(f"{name}/{below}")

    def _names(self, folder: str) -> dict[str, int]:
        """All files under `folder` with their bytes; none where it is not there."""
        where = self.place.join(folder) if folder else self.place
        if not where.is_folder():
            return {}
        return {name: stored.size for name, stored in where.list().items()}
