"""What a plan says of layers that read titles before the query comes: quality, bytes, speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from qt_bert.results.plan_evidence import Measured, Ratio
from qt_bert.results.probe import PairsRef

MOST_LOST = 0.02
"""What may be lost of the deciding metric (2 points of accuracy), by the upper end of its interval."""

LEAST_KEPT = 0.97
"""The share of the control's QWK that a retrained offline model should keep."""

NoRows = Literal["offline", "one layer", "no room"]
"""Why there are no rows: the model is an offline one itself, has one layer, or queries leave no
room for a title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineRow:
    """The layers 0 … `layers` − 1 read titles apart, without retraining.

    Changes are by metric. `block` is that of the block alone, at the usual positions, `both` that with
    the positions moved, on validation; `discovery` is `both` there, which the choice rests on.
    `speed` is how many times as fast a query is ranked with title states read.
    """

    layers: int
    block: dict[str, Measured]
    both: dict[str, Measured]
    discovery: dict[str, Measured]
    speed: Ratio | None = None

    def may_lose(self, metric: str) -> float:
        """What may be lost of `metric` on discovery: the upper end of the interval, infinite where
        there is none."""
        found = self.discovery.get(metric)
        return float("inf") if found is None or found.ci_low is None else -found.ci_low


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTitles:
    """What titles take when their states are stored, in the mean over `titles` distinct ones.

    `tokens` a title with its separators, as it is cut; `size`: bytes a title by number type,
    its key among them.
    """

    titles: int
    tokens: float
    size: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """How `OfflineRow.speed` was measured: so many titles under each of so many queries.

    `whole_ms` is the model's own median time for one query, in milliseconds; `states` the number
    type of the states that were read.
    """

    queries: int
    titles: int
    whole_ms: float
    states: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrained:
    """A retrained offline model beside its control, which differs in nothing but the block.

    `measured`: metric → the control (`base`), the offline model (`value`) and their paired change on
    `pairs`; `kept`: the offline model's QWK as a share of the control's.
    """

    name: str
    sha256: str
    control: str
    control_sha256: str
    layers: int
    title_start: int
    title_tokens: int
    pairs: PairsRef
    measured: dict[str, Measured]
    kept: Ratio | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflinePlan:
    """Which layers may read titles before the query comes, and what that costs and saves.

    `reason` says why there are no rows, where there are none; then all else is empty. Titles begin at
    position `title_start`, or behind a longer query, and have up to `title_tokens` tokens;
    `long_queries` is the share of the pairs of discovery whose query reaches beyond. `positions`:
    what moving them changes, by metric, whatever the number of layers. `metric` is the one that
    decides: `chosen` is the largest number of layers that loses less than `MOST_LOST` of it on
    discovery, None where no number does; `retrain` is the number to retrain then. `guards` are the
    figures of the check that the block is where it should be.
    """

    layers: int
    reason: NoRows | None = None
    title_start: int = 0
    title_tokens: int = 0
    long_queries: float = 0.0
    discovery: PairsRef | None = None
    validation: PairsRef | None = None
    metric: str | None = None
    chosen: int | None = None
    retrain: int | None = None
    positions: dict[str, Measured] = field(default_factory=dict)
    rows: tuple[OfflineRow, ...] = ()
    titles: StoredTitles | None = None
    timed: Timed | None = None
    retrained: Retrained | None = None
    guards: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> OfflineRow | None:
        """The row of the layers that the plan speaks for: those chosen, else those to retrain."""
        wanted = self.retrain if self.chosen is None else self.chosen
        return next((row for row in self.rows if row.layers == wanted), None)
