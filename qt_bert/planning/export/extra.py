"""The packages of the extra `export`: not everybody has them, and they talk a lot."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec

from qt_bert.errors import ArgumentError

EXPORTING = ("onnx", "onnxscript", "onnxruntime")
RUNNING = ("onnxruntime",)


def need(packages: tuple[str, ...]) -> None:
    """Raise ArgumentError where one of `packages` is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ArgumentError(f"ONNX needs {', '.join(missing)}: pip install 'qt-bert[export]'")


def versions() -> dict[str, str]:
    """Version of each package of the extra."""
    return {name: version(name) for name in EXPORTING}


@contextmanager
def quietly() -> Iterator[None]:
    """Warnings of these packages are about their own insides, and no user can act on them."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(disabled)
