"""A folder at an address, copied once to a machine for all its processes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from qt_bert.errors import ArgumentError
from qt_bert.scale.places.place import Place, Stored

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
