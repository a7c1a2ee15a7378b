"""The folder of a private Ray cluster: nobody else's, and cleared as soon as its owner is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qt_bert.scale.apart import watchdog
from qt_bert.scale.apart.owned_folder import owned_folder

_CLEARED_SECONDS = 30
_LONGEST = 40
"""Ray's sockets lie 66 characters below its folder, and the system takes 107."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder in an `owned_folder`; what works there is killed as the block is left.

    A process apart sees to that, also when this one is gone by SIGKILL. Raises as `owned_folder`.
    """
    with owned_folder(_LONGEST) as folder:
        inner = folder / "r"
        inner.mkdir()
        read, write = os.pipe()
        guard = _start(folder, read)
        os.close(read)
        try:
            yield inner
        finally:
            os.close(write)
            with suppress(subprocess.TimeoutExpired):
                guard.wait(_CLEARED_SECONDS)


def _start(folder: Path, read: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", watchdog.__file__, str(folder), str(os.getpid()), str(read)]
    return subprocess.Popen(
        command,
        pass_fds=[read],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
