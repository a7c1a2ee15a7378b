"""The content of `comparison.json`: two models on the same pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from qt_bert.results.codec import read_result
from qt_bert.results.evaluation import Grade, JudgedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDifference:
    """A metric of both; `difference` is b − a with its paired 95 % interval and two-sided p.

    `reason` says why a value is missing.
    """

    value_a: float | None
    value_b: float | None
    difference: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    n: int
    n_queries: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """A pair with the ranking score (the expected grade, or the one logit) of both models."""

    query: str
    title: str
    grade: Grade | None
    a: float
    b: float
    id: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """Every metric of both models, and the pairs on which they differ most."""

    schema: Literal[1] = 1
    a: JudgedModel
    b: JudgedModel
    n_pairs: int
    metrics: dict[str, MetricDifference]
    most_different: tuple[ComparedPair, ...] = ()
    settings: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> ComparisonResult:
        """Read `comparison.json`. Raises RunFolderError naming the key that does not fit."""
        return read_result(cls, path)
