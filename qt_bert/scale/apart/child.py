"""What a process apart does first: a voice of its own, and no life beyond its parent's."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

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
