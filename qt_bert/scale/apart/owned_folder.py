"""A temporary folder that is cleared even when its owner is killed: by the next one that starts."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qt_bert.errors import RunFolderError
from qt_bert.scale.apart import watchdog

_PREFIX = "qtb-"
_OWNER = "owner"
# Ray's sockets lie 66 characters below its folder, and the system takes 107.
_LONGEST = 40
_YOUNG_SECONDS = 60


@contextmanager
def owned_folder() -> Iterator[Path]:
    """A new folder that only this user may enter, with a short path, removed as the block is left.

    Those of dead owners are cleared first: processes that work there are killed. Raises RunFolderError
    where there can be no such folder, OSError where the disk is full.
    """
    base = _base()
    clear_stale(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    try:
        (folder / _OWNER).write_text(_alive(os.getpid()), encoding="ascii")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_stale(base: Path) -> None:
    """Clear the folders of this user under `base` whose owners are dead."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if mine and _is_stale(folder, time.time() - found.st_mtime):
                watchdog.clear(str(folder), os.getpid())


def _is_stale(folder: Path, age: float) -> bool:
    try:
        said = (folder / _OWNER).read_text(encoding="ascii")
        owner = int(said.split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return age > _YOUNG_SECONDS  # its owner may be about to say so, or could not
    return said != _alive(owner)


def _alive(process: int) -> str:
    """The number of a process and when it was started, for numbers come again; `N -` of a dead one."""
    try:
        started = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return f"{process} -"
        started = "?" if _answers(process) else "-"
    return f"{process} {started}"


def _answers(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _base() -> Path:
    for base in (Path(tempfile.gettempdir()).resolve(), Path("/tmp")):
        if len(str(base)) + len(_PREFIX) + 11 <= _LONGEST and os.access(base, os.W_OK):
            return base
    raise RunFolderError(
        f"neither {tempfile.gettempdir()} nor /tmp can hold the files of a Ray cluster, whose path has "
        f"at most {_LONGEST} characters; set TMPDIR to a folder that can be written"
    )
