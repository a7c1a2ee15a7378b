"""Places of inputs and results: local paths, or addresses of pyarrow's file systems."""

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
_ATOMIC = ("s3", "gcs", "abfs")
"""File systems where a file appears only when its stream is closed."""


@dataclass(frozen=True)
class Place:
    """A file or folder; `str()` is what the user wrote. Methods raise OSError.

    `filesystem` and `path` are pyarrow's; `filesystem` is None for a local path. A `Readable` of the
    readers of pairs.
    """

    text: str
    filesystem: Any
    path: str

    @classmethod
    def of(cls, text: str | Path) -> Place:
        """The place that `text` names, an address (`scheme://…`) or a path.

        Raises ArgumentError for an unknown or unreachable file system, and a name that is not UTF-8.
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
        """For the readers of pairs: a path, or the place itself."""
        return Path(self.path) if self.filesystem is None else self

    @property
    def key(self) -> tuple[str, str]:
        """Equal for two names of the same file."""
        if self.filesystem is None:
            return ("local", os.path.realpath(self.path))
        settings = self.text.partition("?")[2]
        return (f"{self.filesystem.type_name}?{settings}", posixpath.normpath(self.path))

    def join(self, name: str) -> Place:
        """The place `name` in this folder; parameters of an address stay at its end."""
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
        """The bytes of a file; -1 for a folder; None for neither."""
        with _os_errors():
            info = (self.filesystem or fs.LocalFileSystem()).get_file_info(self.path)
        if info.type == fs.FileType.NotFound:
            return None
        return int(info.size) if info.type == fs.FileType.File else -1

    def files(self) -> dict[str, int]:
        """Relative path → bytes of all files in the folder, recursively, sorted by path.

        Links are followed; a broken one is a file of 0 bytes, which cannot be read.
        """
        if self.filesystem is None:
            sizes = {name: self.join(name).size() or 0 for name in self._local_names()}
        else:
            with _os_errors():
                infos = self.filesystem.get_file_info(fs.FileSelector(self.path, recursive=True))
            sizes = {
                posixpath.relpath(info.path, self.path or "."): int(info.size)
                for info in infos
                if info.type == fs.FileType.File
            }
        return dict(sorted(sizes.items(), key=lambda item: item[0].split("/")))

    def write(self, data: bytes) -> None:
        """Write a file atomically, and create its folders."""
        if self.filesystem is None:
            with atomic_write(self.path) as temporary:
                temporary.write_bytes(data)
            return
        folder, base = posixpath.split(self.path)
        atomic = self.filesystem.type_name in _ATOMIC
        name = base if atomic else f".{base}.{secrets.randbits(63)}.tmp"
        target = posixpath.join(folder, name)
        with _os_errors():
            if folder and not atomic:
                self.filesystem.create_dir(folder, recursive=True)
            # By default pyarrow would compress a file whose name ends in .gz.
            with self.filesystem.open_output_stream(target, compression=None) as stream:
                stream.write(data)
            if not atomic:
                self.filesystem.move(target, self.path)

    def remove(self) -> None:
        """Remove the file or folder, if it exists."""
        size = self.size()
        if size is None:
            return
        if self.filesystem is None:
            shutil.rmtree(self.path) if size < 0 else Path(self.path).unlink()
            return
        with _os_errors():
            (self.filesystem.delete_dir if size < 0 else self.filesystem.delete_file)(self.path)

    def _local_names(self) -> Iterator[str]:
        # pyarrow would omit broken links.
        def refuse(error: OSError) -> None:
            raise error

        for folder, _, files in os.walk(self.path, onerror=refuse, followlinks=True):
            yield from (Path(folder, name).relative_to(self.path).as_posix() for name in files)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Turn pyarrow's own errors into OSError."""
    try:
        yield
    except pa.ArrowException as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
