"""Where inputs, models and results lie: a path of this machine, or an address of a file system."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from qt_bert.data.lines import Location
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_READ_BYTES = 2**20
_WHOLE_AT_ONCE = ("s3", "gcs", "abfs")
"""Here a file appears when its stream is closed, and not before."""


class Stored(NamedTuple):
    """A file where it lies, and its bytes."""

    place: Place
    size: int


@dataclass(frozen=True)
class Place:
    """A file or folder; `str()` gives what the user wrote. Anything that fails is an OSError.

    `filesystem` and `path` are pyarrow's; of a path of this machine `filesystem` is None. It is what the
    readers of pairs call `Readable`.
    """

    text: str
    filesystem: Any
    path: str

    @classmethod
    def of(cls, text: str | Path) -> Place:
        """The place that `text` names, an address (`scheme://…`) or a path.

        Raises ArgumentError, naming the address, where its file system is unknown or out of reach, and
        for a name that is not UTF-8, which no list of results could hold.
        """
        text = str(text)
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(text).decode("utf-8", "backslashreplace")
            raise ArgumentError(f"{shown}: this name is not UTF-8; rename it") from None
        if not _ADDRESS.match(text):
            return cls(text, None, text)
        try:
            filesystem, path = fs.FileSystem.from_uri(text)
        except (pa.ArrowException, OSError) as error:
            raise ArgumentError(
                f"{text}: this address cannot be reached ({_first_line(error)}); give a path, or an "
                "address such as s3://bucket/folder, with %20 for a space"
            ) from error
        if filesystem.type_name == "local":
            return cls(text, None, path)
        return cls(text, filesystem, path)

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """The last part of its path, with the suffixes."""
        return posixpath.basename(self.path.rstrip("/"))

    @property
    def location(self) -> Location:
        """As the readers of pairs take it: a path, or the place itself."""
        return Path(self.path) if self.filesystem is None else self

    @property
    def key(self) -> tuple[str, str]:
        """Equal for two places that are the same file."""
        if self.filesystem is None:
            return ("local", os.path.realpath(self.path))
        settings = self.text.partition("?")[2]
        return (f"{self.filesystem.type_name}?{settings}", posixpath.normpath(self.path))

    def join(self, name: str) -> Place:
        """What lies under this place by `name`; settings in an address stay at its end."""
        path = posixpath.join(self.path, name)
        if self.filesystem is None:
            return Place(posixpath.join(self.text, name), None, path)
        address, mark, settings = self.text.partition("?")
        return Place(f"{address.rstrip('/')}/{quote(name)}{mark}{settings}", self.filesystem, path)

    def open_input(self) -> IO[bytes]:
        """The file's bytes, seekable."""
        if self.filesystem is None:
            return open(self.path, "rb")
        with _os_errors():
            opened = self.filesystem.open_input_file(self.path)
        return cast(IO[bytes], BufferedReader(opened, _READ_BYTES))

    def read(self) -> bytes:
        """The whole file."""
        with self.open_input() as handle:
            return handle.read()

    def size(self) -> int | None:
        """The bytes of a file; -1 of a folder; None where nothing is there."""
        with _os_errors():
            found = (self.filesystem or fs.LocalFileSystem()).get_file_info(self.path)
        if found.type == fs.FileType.NotFound:
            return None
        return int(found.size) if found.type == fs.FileType.File else -1

    def files(self) -> dict[str, Stored]:
        """All files in the folder and the folders in it, by their names under it, sorted by path.

        Links are followed; one that leads nowhere is a file that cannot be read.
        """
        if self.filesystem is None:
            names = sorted(self._local_names(), key=lambda name: name.split("/"))
            return {name: Stored(place := self.join(name), place.size() or 0) for name in names}
        selector = fs.FileSelector(self.path, recursive=True)
        with _os_errors():
            listed = self.filesystem.get_file_info(selector)
        found = sorted(
            (one for one in listed if one.type == fs.FileType.File),
            key=lambda one: one.path.split("/"),
        )
        below = [one.path.removeprefix(self.path.rstrip("/")).lstrip("/") for one in found]
        return {
            name: Stored(self.join(name), one.size) for name, one in zip(below, found, strict=True)
        }

    def write(self, data: bytes) -> None:
        """Put a file in its place whole, with the folders it needs; a kill leaves the old one or none."""
        if self.filesystem is None:
            with atomic_write(self.path) as temporary:
                temporary.write_bytes(data)
            return
        with _os_errors():
            if self.filesystem.type_name in _WHOLE_AT_ONCE:
                self._put(self.path, data)
                return
            folder, base = posixpath.split(self.path)
            if folder:
                self.filesystem.create_dir(folder, recursive=True)
            beside = posixpath.join(folder, f".{base}.{secrets.randbits(63)}.tmp")
            self._put(beside, data)
            self.filesystem.move(beside, self.path)

    def remove(self) -> None:
        """Remove the file, or the folder with all that it holds, if there is one."""
        size = self.size()
        if size is None:
            return
        if self.filesystem is None:
            shutil.rmtree(self.path) if size < 0 else Path(self.path).unlink()
            return
        with _os_errors():
            delete = self.filesystem.delete_dir if size < 0 else self.filesystem.delete_file
            delete(self.path)

    def local_folder(self) -> Path:
        """The folder, or a copy of it that all processes of this machine and user share.

        The copy lies among temporary files, under a name that goes by address, names and sizes, and
        appears whole. Raises ArgumentError where there is no file.
        """
        if self.filesystem is None:
            return Path(self.path)
        files = self.files() if self.size() == -1 else {}
        if not files:
            raise ArgumentError(f"{self}: there is no folder with files")
        cache = Path(tempfile.gettempdir(), f"qt-bert-{os.getuid()}")
        cache.mkdir(mode=0o700, exist_ok=True)
        found = cache.lstat()
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(
                f"others may write to {cache}; remove it, or set TMPDIR to a folder of your own"
            )
        listing = json.dumps([str(self), *([name, one.size] for name, one in files.items())])
        final = cache / f"{self.name}.{hashlib.sha256(listing.encode()).hexdigest()[:16]}"
        if final.is_dir():
            return final
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as folder:
            copy = Path(folder, "copy")
            for name, one in files.items():
                if ".." in PurePosixPath(name).parts:
                    raise ArgumentError(f"{self}: the name {name!r} leads out of the folder")
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                (copy / name).write_bytes(one.place.read())
            try:
                copy.rename(final)
            except OSError:  # another process was first
                if not final.is_dir():
                    raise
        return final

    def _put(self, path: str, data: bytes) -> None:
        # Without this pyarrow would pack what goes to a name that ends in .gz.
        with self.filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def _local_names(self) -> Iterator[str]:
        def refuse(error: OSError) -> None:
            raise error

        seen: set[str] = set()
        for folder, below, files in os.walk(self.path, onerror=refuse, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link that leads back to where we have been
                below.clear()
                continue
            seen.add(real)
            yield from (Path(folder, name).relative_to(self.path).as_posix() for name in files)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Give the errors of pyarrow that are none of the system the type of those that are."""
    try:
        yield
    except pa.ArrowException as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
