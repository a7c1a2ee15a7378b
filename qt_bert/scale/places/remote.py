"""A place at an address, reached by the file systems of pyarrow: S3, GCS, Azure, HDFS, file://."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote

from qt_bert.errors import ArgumentError
from qt_bert.scale.places.copying import copy_once
from qt_bert.scale.places.place import Content, Place, Stored, as_bytes

_READ_BYTES = 2**20
# Here a file appears when its stream is closed, and not before.
_OBJECT_STORES = ("s3", "gcs", "abfs")


@dataclass(frozen=True)
class RemotePlace(Place):
    """An address, as the user wrote it; its file system, and the path there."""

    text: str
    filesystem: Any
    path: str

    @classmethod
    def at(cls, text: str) -> RemotePlace:
        """The place at an address. Raises ArgumentError where it cannot be reached."""
        arrow, fs = import_module("pyarrow"), import_module("pyarrow.fs")
        try:
            filesystem, path = fs.FileSystem.from_uri(text)
        except (arrow.ArrowException, OSError) as error:
            raise ArgumentError(
                f"{text}: this address cannot be reached ({_first_line(error)}); give a path, or "
                "an address such as s3://bucket/folder, with %20 for a space"
            ) from error
        return cls(text, filesystem, path)

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """The last part of its path, with the suffixes."""
        return posixpath.basename(self.path.rstrip("/"))

    @property
    def location(self) -> RemotePlace:
        """The place itself."""
        return self

    @property
    def key(self) -> tuple[str, ...]:
        """File system, its settings in the address, and the path; a local path for `file://`."""
        if self.filesystem.type_name == "local":
            return ("local", str(Path(self.path).resolve()))
        settings = self.text.partition("?")[2]
        return (self.filesystem.type_name, settings, posixpath.normpath(self.path))

    def join(self, name: str) -> RemotePlace:
        """What lies under this place by `name`; settings in the address stay at its end."""
        address, mark, settings = self.text.partition("?")
        text = f"{address.rstrip('/')}/{quote(name)}{mark}{settings}"
        return RemotePlace(text, self.filesystem, self._at(name))

    def open_input(self, name: str = "") -> IO[bytes]:
        """The file's bytes, seekable. Raises OSError."""
        with _os_errors():
            opened = self.filesystem.open_input_file(self._at(name))
        return cast(IO[bytes], BufferedReader(opened, _READ_BYTES))

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or folder. Raises OSError where it cannot be known."""
        return self._type(name) != "NotFound"

    def is_folder(self) -> bool:
        """Whether it is there, and no file. Raises OSError where it cannot be known."""
        return self._type("") == "Directory"

    def stat(self) -> Stored:
        """Size and time of the file. Raises OSError."""
        with _os_errors():
            found = self.filesystem.get_file_info(self.path)
        if found.type.name != "File":
            raise FileNotFoundError(f"no file at {self.text}")
        return Stored(self, found.size, found.mtime_ns)

    def list(self) -> dict[str, Stored]:
        """All files in the folder and the folders in it. Raises OSError."""
        selector = import_module("pyarrow.fs").FileSelector(self.path, recursive=True)
        with _os_errors():
            found = [i for i in self.filesystem.get_file_info(selector) if i.type.name == "File"]
        found.sort(key=lambda info: info.path.split("/"))
        names = [info.path.removeprefix(self.path.rstrip("/")).lstrip("/") for info in found]
        return {
            name: Stored(self.join(name), info.size, info.mtime_ns)
            for name, info in zip(names, found, strict=True)
        }

    def write(self, name: str, content: Content) -> None:
        """One put where that is atomic, else through a temporary file beside it. Raises OSError."""
        data, path = as_bytes(content), self._at(name)
        with _os_errors():
            if self.filesystem.type_name in _OBJECT_STORES:
                self._put(path, data)
                return
            folder, base = posixpath.split(path)
            self.filesystem.create_dir(folder, recursive=True)
            temporary = posixpath.join(folder, f".{base}.{secrets.randbits(63)}.tmp")
            try:
                self._put(temporary, data)
                self.filesystem.move(temporary, path)
            except BaseException:
                self._remove(temporary)
                raise

    def delete(self, name: str = "") -> None:
        """Remove a file, if there is one. Raises OSError."""
        with _os_errors():
            self._remove(self._at(name))

    def local_copy(self, cache: Path) -> Path:
        """A copy under `cache`, made once for this address and what is listed there.

        Raises OSError, and ArgumentError where there is no folder with files.
        """
        if not self.is_folder():
            raise ArgumentError(f"{self}: there is no such folder")
        return copy_once(self, self.list(), cache)

    def _at(self, name: str) -> str:
        return posixpath.join(self.path, name) if name else self.path

    def _type(self, name: str) -> str:
        with _os_errors():
            return str(self.filesystem.get_file_info(self._at(name)).type.name)

    def _put(self, path: str, data: bytes) -> None:
        # Without this pyarrow would pack what goes to a name that ends in .gz.
        with self.filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def _remove(self, path: str) -> None:
        if self.filesystem.get_file_info(path).type.name == "File":
            self.filesystem.delete_file(path)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Give the errors of pyarrow that are none of the system the type of those that are."""
    try:
        yield
    except import_module("pyarrow").ArrowException as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
