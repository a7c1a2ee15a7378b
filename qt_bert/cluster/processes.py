"""Processes apart: what they start with, how they speak and end, their temporary folders."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Any

from qt_bert.cluster import watchdog
from qt_bert.errors import RunFolderError


def child_environment() -> dict[str, str]:
    """That of this process; modules are found where it finds them, and where it says that its children
    shall."""
    found = [path or os.getcwd() for path in sys.path]
    asked = filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join([*found, *asked])}


_READ = 2000


def last_words(written: bytes) -> str:
    """`: ` and the last line that holds anything; nothing where there is none."""
    lines = written[-_READ:].decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1]}" if said else ""


def ended_by(status: int) -> str:
    """How a process ended, by the status that `subprocess` gives."""
    return f"signal {-status}" if status < 0 else f"exit status {status}"


# What a process apart does first: a voice of its own, and no life beyond its parent's.


_PR_SET_PDEATHSIG = 1

Say = Callable[[dict[str, Any]], None]
"""Says one thing to the parent."""


def own_voice() -> Say:
    """What writes to standard output; whatever else is printed goes to standard error from now on."""
    own = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        own.write(json.dumps(message) + "\n")
        own.flush()

    return say


def die_with(parent: int) -> None:
    """End this process with `parent`, where the system can see to that; leave no core file."""
    if sys.platform == "linux":
        import resource

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.getppid() != parent:
        sys.exit("the process that asked is gone")


# A temporary folder that is cleared even when its owner is killed: by the next one that starts.


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


# A helper: a process that calls functions for this one, so that what ends it ends nothing else.


_MODULE = "qt_bert.cluster.helper_process"
_END_SECONDS = 30.0


class HelperGoneError(Exception):
    """The helper ended before it had answered; the text says how."""


class Helper:
    """One process, which answers one call at a time, and dies with the thread that started it.

    It works in the folder of this process, finds modules where this one does, and is in no terminal's
    hand: Ctrl-C does not reach it. As the block is left it ends by itself, so that what it called can
    clean up, and is killed after 30 seconds; at once where the block raised. Raises OSError where it
    cannot be started.
    """

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the helper lives
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(os.getpid()), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=child_environment(),
                start_new_session=True,
            )

    def __enter__(self) -> Helper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS if error is None else 0)
        self._kill()
        self._errors.close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked again."""
        return self._process.poll() is None

    def call(
        self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None
    ) -> Any:
        """What a function of a module gives for `arguments`, called in the helper.

        Raises what it raises, and HelperGoneError where the helper ends before, or has not answered
        within some `seconds`: it is ended then.
        """
        [value] = self._answers(function, arguments, each=False, seconds=seconds)
        return value

    def stream(
        self, function: Callable[..., Iterable[Any]], *arguments: Any
    ) -> Generator[Any, None, None]:
        """As `call`, but value by value, as they come. Closed before its end it ends the helper."""
        return self._answers(function, arguments, each=True)

    def _answers(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        *,
        each: bool,
        seconds: float | None = None,
    ) -> Generator[Any, None, None]:
        through = False
        try:
            self._connection.send((function, arguments, each))
            while True:
                if not self._connection.poll(seconds):
                    raise HelperGoneError(f"no answer within {seconds:g} seconds")
                kind, value = self._connection.recv()
                through = kind != "said"
                if kind == "raised":
                    raise value
                if through:
                    return
                yield value
        except (EOFError, OSError) as error:
            if through:
                raise
            raise HelperGoneError(self._end()) from error
        finally:
            if not through:
                self._kill()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _end(self) -> str:
        """How it ended; its voice goes first, and it shortly behind."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._kill()
        self._errors.seek(0)
        return ended_by(self._process.returncode) + last_words(self._errors.read())
