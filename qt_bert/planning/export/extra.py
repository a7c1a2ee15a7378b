"""The packages of the extra `export`, which not everybody has."""

from __future__ import annotations

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
