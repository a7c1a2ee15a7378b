"""The plan of a smaller model and what came of it: `plan.json`, `export.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from qt_bert.figures import Figure
from qt_bert.results import ResultFile
from qt_bert.results.evaluation import JudgedModel
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.probe import ClaimValues, PairsRef, SourcedClaim
from qt_bert.stats.comparison import MetricDifference

MARGIN = 0.02
"""The non-inferiority margin: the loss of Spearman's ρ that a smaller model may have."""

TESTED = "spearman"
"""The metric of the test: Spearman's ρ of the expected grade."""

PAGE = "plan.html"
"""The page of a plan."""

Verdict = Literal["non-inferior", "undecided", "inferior"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A metric of the teacher (`base`) and of the smaller model, and the paired change with its interval."""

    base: float
    value: float
    change: float
    ci_low: float | None
    ci_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The smaller model's figure as a share of the teacher's, both taken in one run."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Parameters, as a number and as a share of the teacher's, and bytes stored in float16."""

    parameters: int
    share: float
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One budget: `kept` of the teacher's heads or layers.

    `removed`: the removed heads (`L3H7`) or layers (`L3`). `measured`: metric → its change on validation.
    """

    of: Literal["heads", "layers"]
    kept: int
    share: float
    removed: tuple[str, ...]
    size: Size
    measured: dict[str, MetricChange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTest:
    """The one plan on pairs that took no part in choosing it.

    `coarse`: labels that mean several grades. `measured` is by metric; `spearman` is tested.
    """

    role: Literal["validation", "held out"]
    pairs: PairsRef
    coarse: bool
    measured: dict[str, MetricChange]

    @property
    def verdict(self) -> Verdict | None:
        """Non-inferior: the lower end of the interval of ρ's change lies above −MARGIN."""
        change = self.measured.get(TESTED)
        if change is None or change.ci_low is None or change.ci_high is None:
            return None
        if change.ci_low > -MARGIN:
            return "non-inferior"
        return "inferior" if change.ci_high < -MARGIN else "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """A set of heads, those `lost`, the change when these are ablated, whether it is unstable."""

    name: str
    heads: tuple[str, ...]
    lost: tuple[str, ...]
    measured: MetricChange | None = None
    unstable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvidence:
    """The measurements behind a plan.

    Everything is chosen on `discovery`. The plan is tested on all of `validation`; the grid and the
    functions are measured on a sample of it, `sampled`. `functions` is the source of the heads' functions.
    `effects`: the loss that ablating each head alone adds on discovery; `cost`: the work of choosing heads,
    in sweeps over all single heads. `claim` is `plan.kept`, judged on validation.
    """

    profile: Literal["quick", "full"]
    dtype: str
    discovery: PairsRef
    validation: PairsRef
    sampled: PairsRef | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    size: Size
    cost: float | None = None
    effects: dict[str, float] = field(default_factory=dict)
    grid: tuple[GridRow, ...] = ()
    tests: tuple[PlanTest, ...] = ()
    claim: SourcedClaim | None = None
    values: ClaimValues | None = None
    functions: Literal["run", "heads.json", "none"] = "none"
    at_risk: tuple[AtRisk, ...] = ()
    figures: tuple[Figure, ...] = ()


BudgetKind = Literal["heads", "layers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of a smaller model: a share of the teacher's heads or layers, or a number. `asked` is the
    text of the option, `heads=0.6`."""

    kind_of: BudgetKind
    value: float
    share: bool
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(ResultFile):
    """`plan.json`. `teacher.sha256` is that of the teacher's weights: a plan is for one model.

    `replacement` is `zero`; an earlier version's plan with `mean` is refused. `units`: the feed-forward units
    that stay, by the layer's number in the teacher, where the plan chose them. `evidence`: the measurements
    behind the choice; a plan made by hand has none.
    """

    kind: ClassVar[str] = "plan"
    schema: Literal[1] = 1
    teacher: TeacherRef
    budget: Budget
    kept: tuple[KeptLayer, ...]
    replacement: Literal["zero"] = "zero"
    units: dict[str, tuple[int, ...]] = field(default_factory=dict)
    evidence: PlanEvidence | None = None


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
    """The file compared with torch in a process of its own: the largest difference and its bound."""

    bound: float
    largest: float
    cases: tuple[CheckedCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Loss:
    """The loss by int8 on graded pairs.

    In `metrics`, a is the file in float32 and b that in int8; `largest` is the largest difference of
    a logit.
    """

    pairs: PairsRef
    metrics: dict[str, MetricDifference]
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFile(ResultFile):
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
