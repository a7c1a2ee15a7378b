"""What processes apart are started with: the environment of this one, and its modules."""

from __future__ import annotations

import os
import sys


def child_environment() -> dict[str, str]:
    """That of this process; modules are found where it finds them, and where it says that its children
    shall."""
    found = [path or os.getcwd() for path in sys.path]
    asked = filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join([*found, *asked])}
