"""Writing and hashing files so that a kill at any moment leaves the old file or the new one."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, RunFolderError

_TEMPORARY = re.compile(r"\.(.+)\.\d+\.tmp")
"""What `atomic_write` and `atomic_folder` leave when they are killed; the group is the name that they write."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is fsynced and renamed over `path`.

    On an exception the temporary file is removed and `path` stays as it was; what a kill leaves, the next
    write of `path` removes.
    """
    final = Path(path)
    with _temporary(final, Path.touch) as temporary:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, final)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder beside `path`; on success it replaces `path` and all that was in it.

    A link stays: what it leads to is replaced. On an exception the new folder is removed and `path` stays as it
    was. A kill leaves nothing half-written; at worst the old folder remains as `.NAME.old`, until the next write
    of `path`. Modes follow the umask.
    """
    final = Path(os.path.realpath(path))
    old = final.with_name(f".{final.name}.old")
    with _temporary(final, Path.mkdir) as temporary:
        yield temporary
        mode = temporary.stat().st_mode & 0o666
        for file in temporary.rglob("*"):
            if file.is_file():  # safetensors makes files that only their owner reads
                file.chmod(mode)
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
        temporary.rename(final)
        if old.exists():
            shutil.rmtree(old)


@contextmanager
def _temporary(final: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A hidden new path beside `final`, locked (flock) while the block runs and removed after it."""
    final.parent.mkdir(parents=True, exist_ok=True)
    remove_left(final)
    while True:
        # A random name: processes of two machines may share a folder and a process number.
        temporary = final.with_name(f".{final.name}.{secrets.randbits(63)}.tmp")
        make(temporary)
        handle = os.open(temporary, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if temporary.exists():  # not removed between the two, as left by a kill
            break
        os.close(handle)
    try:
        yield temporary
    finally:
        _remove(temporary)
        os.close(handle)


def remove_left(final: Path) -> None:
    """Remove what killed writers of `final` left beside it; what a living one writes is locked, and stays."""
    with suppress(OSError):  # no such folder, or one that cannot be listed
        for name in os.listdir(final.parent):
            if (left := _TEMPORARY.fullmatch(name)) and left[1] == final.name:
                _remove_unlocked(final.with_name(name))


def _remove_unlocked(path: Path) -> None:
    with suppress(OSError):  # gone, locked, or a file system without locks
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented UTF-8 JSON, atomically. NaN and infinity are refused (ValueError)."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    with atomic_write(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: str | os.PathLike[str]) -> Any:
    """The value stored by `write_json`. Raises ValueError for no JSON, and for one that is nested too deeply."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("lists or objects in one another, too deep to read") from None


def sha256_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, as hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def one_writer(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold `.NAME.lock` beside `path` while the block writes to `path`.

    Raises RunFolderError where another process holds it. The kernel's lock (flock) ends with its
    process; the file is removed after the block. Where no file can be written beside `path`, or the
    file system has no locks, nothing is locked.
    """
    final = Path(path)
    lock = final.parent / f".{final.name}.lock"
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        handle = open(lock, "a+", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError:
        yield
        return
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle.fileno()), os.stat(lock)):
                raise BlockingIOError  # the file was replaced while this process waited
        except (BlockingIOError, FileNotFoundError):
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            raise RunFolderError(f"{final}: {holder} is writing it; wait for its end") from None
        except OSError:
            pass
        handle.truncate(0)
        handle.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        handle.flush()
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def check_apart(out: Path, read: Path) -> None:
    """Raise ArgumentError where replacing `out` would delete `read`, an input of the command."""
    source = read.resolve()
    if out.resolve() in (source, *source.parents):
        raise ArgumentError(
            f"--out {out} is, or holds, {read}, which is read; choose another place"
        )


def is_vacant(path: Path) -> bool:
    """True for a folder that is new, empty, or holds only temporary files of a killed process."""
    if not path.exists():
        return True
    return path.is_dir() and all(_TEMPORARY.fullmatch(entry.name) for entry in path.iterdir())
