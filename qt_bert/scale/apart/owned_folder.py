"""A temporary folder that is cleared even when its owner is killed: by the next one that starts."""

from __future__ import annotations

import os
import platform
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
_DRAWN = 11
"""Characters of a folder's name that are drawn, and of what lies in it."""

_YOUNG_SECONDS = 60


@contextmanager
def owned_folder(longest: int | None = None) -> Iterator[Path]:
    """A new folder that only this user may enter, removed as the block is left.

    Its path has at most `longest` characters. Those of dead owners on this machine are cleared first:
    processes that work there are killed. Raises RunFolderError where no such path can be written,
    OSError where the disk is full.
    """
    base = Path(tempfile.gettempdir()) if longest is None else _base(longest)
    clear_stale(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    try:
        (folder / _OWNER).write_text(f"{_alive(os.getpid())} {_here()}", encoding="utf-8")
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
        number, started, where = (folder / _OWNER).read_text(encoding="utf-8").split(" ", 2)
        alive = _alive(int(number))
    except (FileNotFoundError, ValueError):
        return age > _YOUNG_SECONDS  # its owner may be about to say so, or could not
    return where == _here() and f"{number} {started}" != alive


def _here() -> str:
    """Where numbers of processes mean the same: several machines or containers may share the folder."""
    try:
        return f"{platform.node()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()


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


def _base(longest: int) -> Path:
    for base in (Path(tempfile.gettempdir()).resolve(), Path("/tmp")):
        if len(str(base)) + len(_PREFIX) + _DRAWN <= longest and os.access(base, os.W_OK):
            return base
    raise RunFolderError(
        f"neither {tempfile.gettempdir()} nor /tmp can be written and leaves a path of at most "
        f"{longest} characters; set TMPDIR to a folder that does"
    )
