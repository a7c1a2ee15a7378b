"""What helpers are asked to do; it imports little, for they start with it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError


def said(*values: Any) -> Iterator[Any]:
    yield from values


def refuses(first: str) -> Iterator[str]:
    yield first
    raise ArgumentError(f"{first} is no more")


class Unportable(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def raises_unportable() -> None:
    raise Unportable("o", "dd")


def loses_its_line() -> None:
    raise ConnectionResetError("of another line")


def tidies_up(file: str, seconds: float) -> None:
    """As the process ends."""

    def tidy() -> None:
        time.sleep(seconds)
        Path(file).touch()

    atexit.register(tidy)


def module_paths() -> list[str]:
    return sys.path


def dies(how: str) -> Iterator[str]:
    yield "alive"
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    print("the last words", file=sys.stderr, flush=True)
    os._exit(1)


def folder_of_ray() -> str:
    """Where the cluster works that this process, a helper, is connected to."""
    import ray

    return str(ray._private.worker.global_worker.node.get_temp_dir_path())


def address_of_ray() -> str:
    """HOST:PORT of that cluster."""
    import ray

    return str(ray.get_runtime_context().gcs_address)
