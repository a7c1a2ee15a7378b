"""The bytes of a file, unpacked: a path of this machine, or what something else can open."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, cast, runtime_checkable

from qt_bert.errors import PairFileError


@runtime_checkable
class Readable(Protocol):
    """A file that is no local path, such as one at an address; `str()` names it in messages."""

    @property
    def name(self) -> str:
        """The last part of its path, with the suffixes."""

    def open_input(self) -> IO[bytes]:
        """Its bytes as they are stored, seekable; OSError where they cannot be read."""


Location = Path | Readable


@contextmanager
def open_bytes(path: Location) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a file; what fails while they are read is a PairFileError."""
    with open_stored(path) as (_, unpacked):
        yield unpacked


@contextmanager
def open_stored(path: Location) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The stored bytes of a file and, read through them, the unpacked ones; as `open_bytes`."""
    try:
        with _open(path) as stored, _unpacked(stored, path.name) as unpacked:
            yield stored, unpacked
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise PairFileError(
            f"{path}: the compressed data is damaged or cut short ({error}); fetch or make it again"
        ) from error
    except OSError as error:
        raise PairFileError(f"{path}: cannot be read ({error.strerror or error})") from error


def _open(path: Location) -> IO[bytes]:
    if not isinstance(path, Path):
        return path.open_input()
    if path.is_dir():
        raise PairFileError(f"{path}: is a folder; name a file of pairs in it")
    if path.exists() and not path.is_file():
        raise PairFileError(f"{path}: is not a regular file; save the pairs to a file first")
    return open(path, "rb")


def _unpacked(stored: IO[bytes], name: str) -> IO[bytes]:
    match Path(name).suffix.lower():
        case ".gz":
            return cast(IO[bytes], gzip.open(stored, "rb"))
        case ".xz":
            return cast(IO[bytes], lzma.open(stored, "rb"))
        case _:
            return stored
