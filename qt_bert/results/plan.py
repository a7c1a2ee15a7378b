"""The plan of a smaller model: what it keeps, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from qt_bert.files import write_json
from qt_bert.results.codec import encode, read_result
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.offline import OfflinePlan
from qt_bert.results.plan_evidence import PlanEvidence

MEANS = "means.safetensors"
"""Mean contexts beside a plan that replaces heads by them."""

BudgetKind = Literal["heads", "layers", "latency", "params"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a smaller model may have of `kind`: a share of the teacher's, or a number.

    `latency` is always a share. `asked` is the text as it was given, `heads=0.6`.
    """

    kind_of: BudgetKind
    value: float
    share: bool
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMatch:
    """Layer `student` of the smaller model starts as the teacher's layer `starts_as` and imitates
    the output of its layer `imitates`: the one just before the next kept layer, the last the last."""

    student: int
    starts_as: int
    imitates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`plan.json`. `teacher.sha256` is that of the teacher's weights: a plan is for one model.

    Under the replacement `mean` the mean contexts lie beside it, in `MEANS`. `units`: by a layer's
    number in the teacher, the feed-forward units that stay, where the plan chose them. `evidence` is
    what the choice rests on, `offline` what stands beside it: the layers that may read titles before
    the query comes. A plan made by hand has neither.
    """

    kind: ClassVar[str] = "plan"
    schema: Literal[1] = 1
    teacher: TeacherRef
    budget: Budget
    replacement: Literal["zero", "mean"]
    kept: tuple[KeptLayer, ...]
    layer_map: tuple[LayerMatch, ...]
    units: dict[str, tuple[int, ...]] = field(default_factory=dict)
    evidence: PlanEvidence | None = None
    offline: OfflinePlan | None = None

    def write(self, path: Path) -> None:
        """Store the plan, atomically."""
        write_json(path, encode(self))

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read a stored plan. Raises RunFolderError naming the key that does not fit."""
        return read_result(cls, path)


def layer_map(kept: tuple[KeptLayer, ...], layers: int) -> tuple[LayerMatch, ...]:
    """Which layer of a teacher of `layers` layers each kept one imitates."""
    ends = [one.layer - 1 for one in kept[1:]] + [layers - 1]
    return tuple(
        LayerMatch(student=place, starts_as=one.layer, imitates=end)
        for place, (one, end) in enumerate(zip(kept, ends, strict=True))
    )
