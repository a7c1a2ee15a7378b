"""What `run.json` holds: which inputs a run had, and which stages are done."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from qt_bert.results.probe import ModelRef, PairsRef

_PACKAGES = ("qt-bert", "torch", "transformers", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """One stage: its key (see `stage_key`), the files it wrote and the seconds it took."""

    status: Literal["pending", "running", "done"]
    key: str = ""
    seconds: float | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """What decides every figure of a run: model, pairs, segmenter and the command's arguments.

    `arguments` are plain JSON values; a stage depends only on those that it names.
    """

    model: ModelRef
    pairs: PairsRef
    arguments: Mapping[str, Any] = field(default_factory=dict)
    segmenter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The content of `run.json`.

    `source` is the hash of the package's sources, `guards` the figures of each stage's guards,
    `complete` whether every stage asked for is done.
    """

    kind: ClassVar[str] = "study"
    schema: Literal[1] = 1
    versions: dict[str, str]
    source: str
    inputs: RunInputs
    stages: dict[str, StageRecord] = field(default_factory=dict)
    guards: dict[str, Any] = field(default_factory=dict)
    complete: bool = False


def installed_versions() -> dict[str, str]:
    """Versions of Python, this package and what its figures rest on, without importing them."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
