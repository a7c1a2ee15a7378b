"""The content of `export.json`: what lies in a folder of `qt-bert export`, and how it was checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from qt_bert.files import write_json
from qt_bert.results.codec import encode, read_result
from qt_bert.results.comparison import MetricDifference
from qt_bert.results.evaluation import JudgedModel, JudgedPairs

EXPORT = "export.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCase:
    """One batch of the check: `rows` rows of up to `length` tokens, some of them shorter if `padded`.

    `difference` is the largest between a logit of the file and torch's.
    """

    rows: int
    length: int
    padded: bool
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCheck:
    """The file against torch in a process of its own: the largest difference, and the bound it met."""

    bound: float
    largest: float
    cases: tuple[CheckedCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Loss:
    """What eight bits cost on graded pairs.

    In `metrics`, a is the file in float32 and b that in int8; `largest` is the largest difference of
    a logit.
    """

    pairs: JudgedPairs
    metrics: dict[str, MetricDifference]
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFile:
    """`export.json`.

    `inputs` are the graph's, each int64 [batch, length]; `pad` is the token id of padding and
    `positions` the most tokens a row may have. `sha256` names every other file of the folder.
    """

    kind: ClassVar[str] = "export"
    schema: Literal[1] = 1
    model: JudgedModel
    family: str
    opset: int
    inputs: tuple[str, ...]
    pad: int
    positions: int
    versions: dict[str, str]
    sha256: dict[str, str]
    check: ExportCheck
    int8: Int8Loss | None = None

    def write(self, folder: Path) -> None:
        """Store it in `folder`, atomically."""
        write_json(folder / EXPORT, encode(self))

    @classmethod
    def read(cls, folder: Path) -> ExportFile:
        """That of `folder`. Raises RunFolderError naming the key that does not fit."""
        return read_result(cls, folder / EXPORT)
