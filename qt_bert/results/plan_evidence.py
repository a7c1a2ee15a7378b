"""What a plan rests on: what its budgets are expected to cost, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from qt_bert.results.figures import Figure
from qt_bert.results.probe import PairsRef
from qt_bert.results.text import Text

MARGIN = 0.02
"""How much of Spearman's ρ a smaller model may lose and still count as no worse."""

TESTED = "spearman"
"""The metric of the test: Spearman's ρ of the expected grade."""

Verdict = Literal["non-inferior", "undecided", "inferior"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The change of a metric that is expected on queries that took no part in choosing.

    `ci_low` to `ci_high` is the 95 % interval of the estimate, `pi_low` to `pi_high` that of the
    change that a new sample will show, which has an error of its own.
    """

    value: float
    ci_low: float | None
    ci_high: float | None
    pi_low: float | None
    pi_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
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
class Speed:
    """Time for one pair at a time (`latency`, smaller is faster) and pairs a second in bulk.

    `teacher_ms` is the teacher's median time for one pair, in milliseconds; `pairs` how many were
    timed one at a time, `bulk_pairs` how many in bulk.
    """

    latency: Ratio
    throughput: Ratio
    teacher_ms: float
    pairs: int
    bulk_pairs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Parameters, as a number and as a share of the teacher's, and bytes stored in float16."""

    parameters: int
    share: float
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One budget: `kept` of the teacher's heads or layers.

    `removed` names what goes: heads (`L3H7`) or layers (`L3`). `expected` and `measured` (on
    validation) are by metric.
    """

    of: Literal["heads", "layers"]
    kept: int
    share: float
    removed: tuple[str, ...]
    size: Size
    speed: Speed | None = None
    expected: dict[str, Expected] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)

    def inside(self, metric: str = TESTED) -> bool | None:
        """Whether the measured change lies where it was predicted; None where one is not known."""
        expected, measured = self.expected.get(metric), self.measured.get(metric)
        if expected is None or measured is None:
            return None
        if expected.pi_low is None or expected.pi_high is None:
            return None
        return expected.pi_low <= measured.change <= expected.pi_high


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalRow:
    """Another way to choose what goes, at one budget of the grid.

    `measured` is ρ's change on validation (of drawn ones the mean), `ahead` how much better the plan's
    way is there, paired.
    """

    of: Literal["heads", "layers"]
    kept: int
    way: str
    name: Text
    measured: Measured
    ahead: Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTest:
    """The one plan on pairs that took no part in choosing it.

    `coarse`: labels that mean several grades. `measured` is by metric; the metric of the test is
    `spearman`, the others stand beside it.
    """

    role: Literal["validation", "held out"]
    pairs: PairsRef
    coarse: bool
    measured: dict[str, Measured]

    @property
    def verdict(self) -> Verdict | None:
        """Non-inferior: the lower end of the interval of ρ's change lies above −MARGIN."""
        found = self.measured.get(TESTED)
        if found is None or found.ci_low is None or found.ci_high is None:
            return None
        if found.ci_low > -MARGIN:
            return "non-inferior"
        return "inferior" if found.ci_high < -MARGIN else "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """A set of heads with a function: which of them go, and what leaving these out alone changes.

    `unstable`: the set was found not to be stable.
    """

    name: str
    heads: tuple[str, ...]
    lost: tuple[str, ...]
    measured: Measured | None = None
    unstable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the article's rule would have kept at the same size: the low layers.

    `kept` is how many heads stay in each layer; `measured` and `chosen` are ρ's change by the rule
    and by the plan on validation, `ahead` how much better the plan is.
    """

    kept: tuple[int, ...]
    measured: Measured
    chosen: Measured
    ahead: Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerEffect:
    """What a layer adds to the loss on discovery when its heads, or the whole of it, is left out alone.

    `turn`: it is the first, second, … to go when layers go one at a time; None for those that stay.
    """

    layer: int
    heads: float
    block: float
    turn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmfulHead:
    """A head without which the model does better by q < 0.05 on discovery: by how much there and on
    validation (None: not defined there), and whether it is `confirmed` there."""

    head: str
    discovery: float
    validation: float | None
    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """The heads that harm, by `metric`; there may be none."""

    metric: str
    heads: tuple[HarmfulHead, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvidence:
    """All that was measured for a plan.

    Everything is chosen on `discovery`. The plan is tested on all of `validation`; the grid, rivals,
    functions and the article's rule are measured on the pairs of it that `sampled` counts.
    `functions` says where the heads' functions come from. `effects` is what leaving out each head
    alone adds to the loss on discovery, `cost` what choosing the heads took, in sweeps over all single heads.
    """

    profile: Literal["quick", "full"]
    dtype: str
    discovery: PairsRef
    validation: PairsRef
    sampled: PairsRef | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    teacher_size: Size
    size: Size
    speed: Speed | None = None
    expected: dict[str, Expected] = field(default_factory=dict)
    cost: float | None = None
    effects: dict[str, float] = field(default_factory=dict)
    layers: tuple[LayerEffect, ...] = ()
    grid: tuple[GridRow, ...] = ()
    rivals: tuple[RivalRow, ...] = ()
    tests: tuple[PlanTest, ...] = ()
    functions: Literal["run", "heads.json", "none"] = "none"
    at_risk: tuple[AtRisk, ...] = ()
    rule: Rule | None = None
    harm: Harm | None = None
    figures: tuple[Figure, ...] = ()
