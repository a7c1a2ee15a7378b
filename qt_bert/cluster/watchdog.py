"""Clears a folder whose owner is gone, however it went, and what works there: a private Ray cluster.

A script of its own: `python -I watchdog.py FOLDER OWNER DESCRIPTOR` waits until the pipe behind the
descriptor ends, as it does when the owner ends it or dies, and then clears the folder. Ray's own
processes would outlive a killed owner by a minute, and its folder for ever. Processes are found by
what Linux says of them in /proc; elsewhere only the folder goes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

_LONGEST_SECONDS = 20.0
_EVERY_SECONDS = 0.1
_QUIET_LOOKS = 3
"""A process may be between two others: started by one that is gone, and not yet to be seen."""


def clear(folder: str, owner: int) -> None:
    """Kill the processes of this user that work in `folder`, and remove it; `owner` is spared."""
    end, quiet = time.monotonic() + _LONGEST_SECONDS, 0
    while quiet < _QUIET_LOOKS and time.monotonic() < end:
        found = list(working_in(folder, {owner, os.getpid()}))
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(_EVERY_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def working_in(folder: str, spared: set[int]) -> Iterator[int]:
    """The processes of this user that name `folder`, or have a file in it open."""
    key = os.fsencode(os.path.realpath(folder).rstrip("/") + "/")
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit() and int(entry) not in spared:
            with suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == os.getuid() and _works_in(entry, key):
                    yield int(entry)


def _works_in(process: str, key: bytes) -> bool:
    # Ray's workers write their title over their command line, so that is not enough.
    for said in ("cmdline", "environ"):
        with open(f"/proc/{process}/{said}", "rb") as handle:
            if key in handle.read():
                return True
    return any(_leads_into(f"/proc/{process}/fd/{one}", key) for one in _open(process))


def _open(process: str) -> list[str]:
    return os.listdir(f"/proc/{process}/fd")


def _leads_into(descriptor: str, key: bytes) -> bool:
    with suppress(OSError):
        return os.fsencode(os.readlink(descriptor)).startswith(key)
    return False


def main() -> None:
    """Wait for the end of the pipe, then clear."""
    folder, owner, descriptor = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    while os.read(descriptor, 1):
        pass
    clear(folder, owner)


if __name__ == "__main__":
    main()
