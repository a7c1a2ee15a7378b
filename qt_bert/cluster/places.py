"""Where inputs and results lie: a path of this machine, or an address of a file system that pyarrow knows."""

from __future__ import annotations

import os
import posixpath
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast
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
        return cls(text, None if filesystem.type_name == "local" else filesystem, path)

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

    def files(self) -> dict[str, int]:
        """The bytes of all files in the folder and the folders in it, by their names under it, sorted by path.

        Links are followed; one that leads nowhere is a file of no bytes, which cannot be read.
        """
        if self.filesystem is None:
            found = {name: self.join(name).size() or 0 for name in self._local_names()}
        else:
            with _os_errors():
                listed = self.filesystem.get_file_info(fs.FileSelector(self.path, recursive=True))
            found = {
                posixpath.relpath(one.path, self.path or "."): int(one.size)
                for one in listed
                if one.type == fs.FileType.File
            }
        return dict(sorted(found.items(), key=lambda one: one[0].split("/")))

    def write(self, data: bytes) -> None:
        """Put a file in its place whole, with the folders it needs; a kill leaves the old one or none."""
        if self.filesystem is None:
            with atomic_write(self.path) as temporary:
                temporary.write_bytes(data)
            return
        folder, base = posixpath.split(self.path)
        whole = self.filesystem.type_name in _WHOLE_AT_ONCE
        name = base if whole else f".{base}.{secrets.randbits(63)}.tmp"
        first = posixpath.join(folder, name)
        with _os_errors():
            if folder and not whole:
                self.filesystem.create_dir(folder, recursive=True)
            # Without this pyarrow would pack what goes to a name that ends in .gz.
            with self.filesystem.open_output_stream(first, compression=None) as stream:
                stream.write(data)
            if not whole:
                self.filesystem.move(first, self.path)

    def remove(self) -> None:
        """Remove the file, or the folder with all that it holds, if there is one."""
        size = self.size()
        if size is None:
            return
        if self.filesystem is None:
            shutil.rmtree(self.path) if size < 0 else Path(self.path).unlink()
            return
        with _os_errors():
            (self.filesystem.delete_dir if size < 0 else self.filesystem.delete_file)(self.path)

    def _local_names(self) -> Iterator[str]:
        # pyarrow would leave out a link that leads nowhere.
        def refuse(error: OSError) -> None:
            raise error

        for folder, _, files in os.walk(self.path, onerror=refuse, followlinks=True):
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
