"""Importing Ray: it reads its settings from the environment once, as it is imported."""

from __future__ import annotations

import os
import secrets
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from qt_bert.errors import ArgumentError

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "OMP_NUM_THREADS": "1",
}
_PRIVATE = {
    "RAY_AUTH_MODE": "token",
    # Despite its name it is what makes Ray listen on the address it is given, and on no other.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def load_ray(*, private: bool) -> Any:
    """The module `ray`, which says nothing; `private`: for a cluster that lets nobody else in.

    What it was loaded for first holds for the whole process. Raises ArgumentError where Ray is not
    installed.
    """
    if "ray" in sys.modules:
        return sys.modules["ray"]
    os.environ.update(_QUIET)
    if private:
        os.environ.update(_PRIVATE, RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        with without_stderr(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module("ray.data")
    except ImportError as error:
        raise ArgumentError(
            f"--engine ray: Ray is not installed ({error}); pip install 'qt-bert[ray]'"
        ) from error
    return sys.modules["ray"]


@contextmanager
def without_stderr() -> Iterator[None]:
    """Drop what this process writes to its standard error, also from below Python: as Ray's core
    starts, it says that it was told to say nothing."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
