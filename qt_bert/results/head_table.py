"""What one probe says of every head, without its figures and settings: small enough to ship."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.results.codec import decode
from qt_bert.results.probe import HEAD_NAME, Finding, PairsRef, ProbeResult
from qt_bert.results.stability import Stability
from qt_bert.results.text import Text

DIGITS = 4
"""Significant digits of a stored score."""

_SCORED_ON = {
    "boundary": ("texts", "segmenter", "validation"),
    "matching": ("scored", "validation"),
    "order": ("scored", "validation"),
}
"""Where the settings of a probe say on what its heads were scored, where that is another sample
than the one that its claims rest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadTable:
    """One probe's named sets, how stable they are, its primary findings and its scores:
    `values[head][score]`.

    `pairs` are those that the scores rest on, `discovery` those that heads were chosen on (p and q
    are of these). `metric` is the one that leaving a head out was measured by.
    """

    probe: str
    title: Text
    order: int
    profile: str
    pairs: PairsRef
    discovery: PairsRef | None = None
    metric: str | None = None
    summary: Text
    findings: tuple[Finding, ...] = ()
    sets: dict[str, tuple[str, ...]]
    stability: dict[str, Stability] = field(default_factory=dict)
    scores: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()

    def __post_init__(self) -> None:
        for head in (*self.heads, *(head for heads in self.sets.values() for head in heads)):
            if not HEAD_NAME.fullmatch(head):
                raise ArgumentError(f"{head!r} is no head; write it as L3H7, both numbers from 0")
        if len(set(self.heads)) != len(self.heads):
            raise ArgumentError(f"the table of {self.probe!r} names a head twice")
        widths = {len(row) for row in self.values}
        if len(self.values) != len(self.heads) or widths - {len(self.scores)}:
            raise ArgumentError(
                f"the table of {self.probe!r} does not hold {len(self.scores)} scores of each of "
                f"{len(self.heads)} heads"
            )

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Head → score → value."""
        pairs = zip(self.heads, self.values, strict=True)
        return {head: dict(zip(self.scores, row, strict=True)) for head, row in pairs}


def table_of(result: ProbeResult, keep: Collection[str] | None = None) -> HeadTable:
    """The table of a probe's result, with the scores named in `keep`, or all of them."""
    names = dict.fromkeys(name for head in result.heads for name in head.scores)
    scores = tuple(name for name in names if keep is None or name in keep)
    return HeadTable(
        probe=result.probe,
        title=result.title or Text(result.probe, result.probe),
        order=result.order,
        profile=str(result.settings.get("profile", "")),
        pairs=_scored_on(result),
        discovery=_discovery(result.settings.get("discovery")),
        metric=_text(result.settings.get("metric")),
        summary=result.summary,
        findings=tuple(map(_short, (one for one in result.findings if one.primary))),
        sets={name: tuple(heads) for name, heads in sorted(result.sets.items())},
        stability={name: _few_digits(one) for name, one in sorted(result.stability.items())},
        scores=scores,
        heads=tuple(one.head for one in result.heads),
        values=tuple(
            tuple(rounded(one.scores.get(name)) for name in scores) for one in result.heads
        ),
    )


def rounded(value: float | None) -> float | None:
    """`value` with as many digits as a table keeps."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _few_digits(one: Stability) -> Stability:
    shares = ("overlap", "low", "high", "halves", "chance_mean", "chance_95")
    sources = tuple(replace(s, overlap=rounded(s.overlap) or 0.0) for s in one.sources)
    numbers: dict[str, Any] = {name: rounded(getattr(one, name)) for name in shares}
    return replace(one, sources=sources, **numbers)


def _short(finding: Finding) -> Finding:
    """Fewer digits, and of the conclusions the one that holds."""
    held = finding.conclusion
    names = ("value", "ci_low", "ci_high", "p", "q", "margin")
    numbers: dict[str, Any] = {name: rounded(getattr(finding, name)) for name in names}
    kept = {} if finding.verdict is None or held is None else {finding.verdict: held}
    return replace(finding, conclusions=kept, **numbers)


def _scored_on(result: ProbeResult) -> PairsRef:
    found: Any = result.settings
    for key in _SCORED_ON.get(result.probe, ()):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or result.probe not in _SCORED_ON:
        return result.pairs
    pairs, queries = found.get("pairs"), found.get("queries")
    if not isinstance(pairs, int) or not isinstance(queries, int):
        return result.pairs
    return replace(result.pairs, n_pairs=pairs, n_queries=queries)


def _discovery(value: Any) -> PairsRef | None:
    try:
        return decode(PairsRef, value)  # type: ignore[no-any-return]
    except RunFolderError:  # settings are free: a probe need not say
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
