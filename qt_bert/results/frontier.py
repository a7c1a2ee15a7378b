"""The frontier of smaller shapes (`frontier.json`): the cost and the quality of each, now and after training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from qt_bert.codec import read_result
from qt_bert.errors import ArgumentError
from qt_bert.figures import Figure
from qt_bert.results import ResultFile
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import Budget, Plan, Ratio
from qt_bert.results.probe import PairsRef
from qt_bert.stats.comparison import MetricDifference

FRONTIER = "frontier.json"

_SHAPE = re.compile(r"layers=[1-9][0-9]{0,8}(,(units|heads)=(1|0?\.[0-9]+)){0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentShape:
    """A number of layers, and the shares of each layer's feed-forward units and heads that stay."""

    layers: int
    units: float = 1.0
    heads: float = 1.0

    @classmethod
    def parse(cls, text: str) -> StudentShape:
        """The shape of `layers=4,units=0.5`. Raises ArgumentError for any other text."""
        text = text.replace(" ", "")
        values = dict(part.split("=") for part in text.split(",")) if _SHAPE.fullmatch(text) else {}
        shares = {name: float(share) for name, share in values.items() if name != "layers"}
        if len(values) != text.count(",") + 1 or not all(shares.values()):
            raise ArgumentError(
                f"--shape {text!r}: write layers=4, layers=4,units=0.5 or layers=4,units=0.5,heads=0.5; "
                "units and heads are shares of each layer's, above 0"
            )
        return cls(layers=int(values["layers"]), **shares)

    def __str__(self) -> str:
        shares = (("units", self.units), ("heads", self.heads))
        return ",".join(
            [f"layers={self.layers}", *(f"{n}={share:g}" for n, share in shares if share < 1)]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRun:
    """A short training of `steps` steps: metric → its change against the teacher on the dev pairs."""

    steps: int
    changes: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A metric's forecast change after a full training, with its 95 % prediction interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRow:
    """One shape: its layers in the teacher, its size and speed, its quality, and its trial.

    `units`: the feed-forward units that stay, by layer. `milliseconds` is the p50 of one query with 10
    titles, `rate` pairs a second in bulk; `latency` and `throughput` are their ratios to the teacher's.
    `quality`: metric → the teacher (a) and the untrained shape (b) on validation. `hours`: of a full
    training on this machine, the teacher's scoring included.
    """

    shape: StudentShape
    kept: tuple[KeptLayer, ...]
    units: dict[str, tuple[int, ...]] = field(default_factory=dict)
    parameters: int
    milliseconds: float
    rate: float
    latency: Ratio
    throughput: Ratio
    quality: dict[str, MetricDifference] = field(default_factory=dict)
    trial: tuple[TrialRun, ...] = ()
    forecast: dict[str, Forecast] = field(default_factory=dict)
    hours: float | None = None


Engine = Literal["torch float32", "torch bfloat16", "ONNX", "ONNX int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Milliseconds of one query with `titles` titles, percentiles over `requests` queries."""

    shape: StudentShape
    engine: Engine
    titles: int
    threads: int
    p50: float
    p99: float
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """More of the teacher and of one shape, `trained` for so many steps: its timings by engine, the share of
    behaviour cases whose better title is higher, and the slice with the highest error rate."""

    shape: StudentShape
    trained: int
    timings: tuple[Timing, ...]
    behaviour: float | None = None
    worst_slice: str | None = None
    slice_errors: float | None = None


TESTED_STEPS = 600
"""Steps of the long trials that forecasts were tested on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The trial: steps of the short and of the long trainings, the training files, the dev pairs, and how many
    finished students of how many teachers the curve is fitted to."""

    steps: tuple[int, int]
    files: tuple[str, ...]
    dev: PairsRef
    students: int = 0
    teachers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier(ResultFile):
    """`frontier.json`: the teacher first, then ever faster shapes.

    `candidates`: how many shapes were measured. `half_heads`: the latency of the teacher with half its heads,
    over its own: heads are left alone where they save less than a tenth. `baseline`: ρ of the share of the
    query's characters in the title. `vocabulary`: the model's `tokens`, those `needed` by the pairs of both
    splits, and the bytes `saved` without the others. `recommended` needs a forecast.
    """

    kind: ClassVar[str] = "frontier"
    schema: Literal[1] = 1
    teacher: TeacherRef
    profile: Literal["quick", "full"]
    dtype: str
    threads: int
    discovery: PairsRef
    validation: PairsRef
    settings: Mapping[str, Any] = field(default_factory=dict)
    candidates: int
    half_heads: Ratio | None = None
    rows: tuple[FrontierRow, ...]
    baseline: MetricDifference
    baseline_ms: float
    vocabulary: dict[str, int] = field(default_factory=dict)
    trial: Trial | None = None
    recommended: StudentShape | None = None
    details: tuple[Detail, ...] = ()
    figures: tuple[Figure, ...] = ()

    def row_of(self, shape: StudentShape | None) -> FrontierRow | None:
        """The row of a shape; None for none, and for another."""
        return next((row for row in self.rows if row.shape == shape), None)

    @property
    def choices(self) -> str:
        """The smaller shapes, for a message."""
        shapes = " or ".join(str(row.shape) for row in self.rows[1:])
        return shapes or "another plan: no smaller shape is faster"

    def plan_of(self, shape: StudentShape) -> Plan:
        """The plan of one of the shapes. Raises ArgumentError for another."""
        row = self.row_of(shape)
        if row is None:
            raise ArgumentError(f"--shape {shape} is not on this frontier; give {self.choices}")
        return shape_plan(self.teacher, shape, row.kept, row.units)


def shape_plan(
    teacher: TeacherRef,
    shape: StudentShape,
    kept: tuple[KeptLayer, ...],
    units: Mapping[str, tuple[int, ...]],
) -> Plan:
    """The plan that keeps these layers and units of `teacher`."""
    budget = Budget(kind_of="layers", value=shape.layers, share=False, asked=str(shape))
    return Plan(teacher=teacher, budget=budget, kept=kept, units=dict(units))


def read_plan(path: Path, shape: str | None = None) -> Plan:
    """The plan in a `plan.json`, or of one shape in a `frontier.json`.

    Raises ArgumentError for a shape that is missing, unknown or given for a `plan.json`, RunFolderError as
    reading either file does.
    """
    if read_result(dict[str, Any], path).get("kind") != Frontier.kind:
        if shape is not None:
            raise ArgumentError(f"--shape goes with a {FRONTIER}; {path} is one plan")
        return Plan.read(path)
    frontier = Frontier.read(path)
    if shape is None:
        raise ArgumentError(f"{path} holds several shapes; give --shape {frontier.choices}")
    return frontier.plan_of(StudentShape.parse(shape))
