"""What a probe found: findings with verdicts, scores of heads, named sets, figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from qt_bert.errors import ArgumentError
from qt_bert.files import write_json
from qt_bert.results.codec import decode, encode, read_result
from qt_bert.results.figures import Figure
from qt_bert.results.stability import Stability
from qt_bert.results.text import Label, Text

Verdict = Literal["reproduced", "not reproduced", "inconclusive"]
Side = Literal["above", "below", "none"]
"""Where a claim says the value lies: above or below zero by more than a margin, or within it."""

HEAD_NAME = re.compile(r"L(\d+)H(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a claim comes from, and the figure given there (a number, a text, or none)."""

    article: str
    section: str
    value: float | str | Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim, the source's figure, what was measured, its 95 % interval and the verdict.

    `value`, `ci_low`, `ci_high` and `margin` are in `unit`; `n_queries` is the number of queries
    the value rests on. `side` is the claimed one: `none` claims an effect within ± `margin`.
    A finding that is not `primary` stands beside the claims: it gets no q and no verdict.
    `q` (over the primary findings) and `verdict` are set by `results.verdicts.settle`;
    `conclusions` holds what a reader may conclude, by verdict. `sets` are the named sets of the same
    result whose heads the claim is about.
    """

    id: str
    claim: Text
    source: Source
    value: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None = None
    margin: float | None
    n_queries: int
    verdict: Verdict | None = None
    unit: Label = ""
    side: Side = "above"
    primary: bool = True
    conclusions: dict[Verdict, Text] = field(default_factory=dict)
    sets: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Text | None:
        """What a reader may conclude from the verdict, where the probe says so."""
        return None if self.verdict is None else self.conclusions.get(self.verdict)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `finding_from_json` reads it."""
        return encode(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Which model: its name, and the SHA-256 of its weights."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRef:
    """Which pairs: the file's name and SHA-256, and how many pairs and queries were used."""

    name: str
    sha256: str
    n_pairs: int | None = None
    n_queries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadScores:
    """One head (`L3H7`, both numbers from 0), its scores by name, and whether it was selected.

    `teacher` is its name in the model that this one was made smaller from, where there is one.
    """

    head: str
    scores: dict[str, float | None]
    selected: bool = False
    teacher: str | None = None

    def __post_init__(self) -> None:
        _check_head(self.head)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The whole answer of one probe, as it stands in `probes/NAME.json`.

    `sets` maps a name (`matching`) to heads, and `stability` says of some how much of them comes
    back; `settings` holds what the probe was run with.
    `title` and `order` are the name and the place of its section of the report.
    """

    schema: Literal[1] = 1
    probe: str
    title: Text | None = None
    order: int = 1000
    model: ModelRef
    pairs: PairsRef
    settings: Mapping[str, Any]
    summary: Text
    findings: tuple[Finding, ...] = ()
    heads: tuple[HeadScores, ...] = ()
    sets: dict[str, tuple[str, ...]]
    stability: dict[str, Stability] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        for heads in self.sets.values():
            for head in heads:
                _check_head(head)
        self._check_sets("the stability of", self.stability)
        for finding in self.findings:
            self._check_sets(f"the claim {finding.id!r} is about", finding.sets)

    def _check_sets(self, what: str, names: Iterable[str]) -> None:
        strange = set(names) - set(self.sets)
        if strange:
            raise ArgumentError(f"{what} {min(strange)!r}, which is none of the sets")

    def to_json(self) -> dict[str, Any]:
        """Plain data; `ProbeResult.read` checks it against this class again."""
        return encode(self)  # type: ignore[no-any-return]

    def write(self, path: Path) -> None:
        """Store the result, atomically."""
        write_json(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> ProbeResult:
        """Read a stored result. Raises RunFolderError naming the key that does not fit."""
        return read_result(cls, path)


def finding_from_json(value: Any, where: str = "finding") -> Finding:
    """The finding that `Finding.to_json` turned into `value`, else RunFolderError."""
    return decode(Finding, value, where)  # type: ignore[no-any-return]


def _check_head(head: str) -> None:
    if not HEAD_NAME.fullmatch(head):
        raise ArgumentError(f"{head!r} is no head; write it as L3H7, both numbers from 0")
