"""`arms.json`: does a plan pay? Students of one size, trained on the same data for the same steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from qt_bert.files import write_json
from qt_bert.results.codec import encode, read_result
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import LayerMatch
from qt_bert.results.probe import PairsRef
from qt_bert.results.text import Text

Outcome = Literal["better", "worse", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to make a student: what it starts from and imitates, and its size."""

    name: str
    what: Text
    kept: tuple[KeptLayer, ...]
    layer_map: tuple[LayerMatch, ...]
    parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRun:
    """One training run: the step it kept, and its metrics on each file of pairs, by name."""

    arm: str
    seed: int
    best_step: int
    metrics: dict[str, dict[str, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDifference:
    """The plan's metric less the `rival`'s, mean over `seeds` paired seeds, on the pairs called `on`.

    The interval is over seeds and queries together. `outcome` is `better` where it lies above 0.
    """

    rival: str
    on: str
    metric: str
    seeds: int
    plan_value: float
    rival_value: float
    difference: float
    ci_low: float | None
    ci_high: float | None
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsFile:
    """`arms.json`. `pairs` are the files that were judged on: `dev`, on which every run chose its
    step, and `validation`, where it was given."""

    kind: ClassVar[str] = "arms"
    schema: Literal[1] = 1
    teacher: TeacherRef
    steps: int
    pairs: dict[str, PairsRef]
    teacher_metrics: dict[str, dict[str, float | None]]
    arms: tuple[Arm, ...]
    runs: tuple[ArmRun, ...]
    differences: tuple[ArmDifference, ...]
    summary: Text

    def write(self, path: Path) -> None:
        """Store it, atomically."""
        write_json(path, encode(self))

    @classmethod
    def read(cls, path: Path) -> ArmsFile:
        """Read a stored one. Raises RunFolderError naming the key that does not fit."""
        return read_result(cls, path)
