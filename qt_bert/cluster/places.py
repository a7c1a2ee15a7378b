"""Where inputs, models and results lie: folders of this machine, or addresses."""

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
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from io import BufferedReader, BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast
from urllib.parse import quote

from qt_bert.data.lines import Location
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write

# Where inputs, models and outputs lie: a path of this machine, or an address of a file system.


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


# A place of this machine's file system.


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


# A folder at an address, copied once to a machine for all its processes.


_BLOCK_BYTES = 2**20
_ABANDONED_SECONDS = 24 * 3600


def cache_of(given: str | None) -> Path:
    """Where a machine keeps such copies: `given`, or a folder of this user among temporary files."""
    return Path(given) if given else Path(tempfile.gettempdir(), f"qt-bert-{os.getuid()}")


def copy_once(place: Place, files: Mapping[str, Stored], cache: Path) -> Path:
    """The folder under `cache` that holds `files`, by their names under `place`.

    Its name goes by the address and by names, sizes and times of the files, so that a changed
    folder is copied anew. It appears at once and whole; of processes that copy at the same time one
    is first, and the others take its copy. Raises OSError, also where others may write to `cache`, and
    ArgumentError where there is no file.
    """
    if not files:
        raise ArgumentError(f"{place}: there are no files in this folder")
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_foreign(cache)
    final = cache / f"{place.name}.{_digest(place, files)}"
    if final.is_dir():
        return final
    _remove_abandoned(cache)
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=cache))
    try:
        for name, stored in files.items():
            _copy(stored, temporary / _safe(name, place))
        temporary.chmod(0o755)
        _put_in_place(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def _refuse_foreign(cache: Path) -> None:
    """What lies there is taken for the model, so nobody else may have put it there."""
    found = cache.lstat()
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not mine or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(
            f"others may write to {cache}; remove it, or set TMPDIR to a folder of your own"
        )


def _remove_abandoned(cache: Path) -> None:
    """Remove copies that were begun so long ago that whoever made them was killed."""
    for one in cache.glob(".*.*.*"):
        with suppress(OSError):
            if time.time() - one.lstat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(one)


def _digest(place: Place, files: Mapping[str, Stored]) -> str:
    listing = [[name, stored.size, stored.mtime_ns] for name, stored in sorted(files.items())]
    return hashlib.sha256(json.dumps([str(place), listing]).encode()).hexdigest()[:16]


def _safe(name: str, place: Place) -> str:
    """`name` itself: an object store allows names that would lead out of the folder."""
    if ".." in PurePosixPath(name).parts:
        raise ArgumentError(f"{place}: the name {name!r} leads out of the folder")
    return name


def _copy(stored: Stored, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with stored.place.open_input() as source, open(target, "wb") as copy:
        shutil.copyfileobj(source, copy, _BLOCK_BYTES)
        copy.flush()
        os.fsync(copy.fileno())
        copied = copy.tell()
    if copied != stored.size:
        raise OSError(f"{stored.place} changed while it was copied; start again")


def _put_in_place(temporary: Path, final: Path) -> None:
    try:
        temporary.rename(final)
    except OSError:
        if not final.is_dir():
            raise


# A place at an address, reached by the file systems of pyarrow: S3, GCS, Azure, HDFS, file://.


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


# From what a user wrote to the place that it names.


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_text(name: str) -> bool:
    """Whether a name is UTF-8: of others Python keeps the bytes in characters that are none."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(name: str) -> str:
    """A name with its bytes that are no text written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def place_of(text: str) -> Place:
    """The place that `text` names: an address (`scheme://...`), or else a local path.

    Raises ArgumentError, naming the address, where its file system is unknown or out of reach, and
    for a name that is not UTF-8, which no list of results could hold.
    """
    if not is_text(text):
        raise ArgumentError(f"{shown(text)}: this name is not UTF-8; rename it")
    return RemotePlace.at(text) if _ADDRESS.match(text) else LocalPlace(text)
