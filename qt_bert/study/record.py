"""What `run.json` holds: which inputs a run had, and which stages are done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from qt_bert.results.probe import ModelRef, PairsRef


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """One stage: its key (see `stage_key`), what it wrote and the seconds it took.

    `folders` hold its sweeps, which a killed stage goes on with; they lie below `sweeps/`.
    """

    status: Literal["pending", "running", "done"]
    key: str = ""
    seconds: float | None = None
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


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
