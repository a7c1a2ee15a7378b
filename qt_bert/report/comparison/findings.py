"""What the probes found of both models, claim by claim."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block, Cell, Column, Prose, Table
from qt_bert.report.comparison.names import names
from qt_bert.report.probes.source import title_of
from qt_bert.report.probes.words import badge, measured
from qt_bert.results import Finding, ProbeResult, Text
from qt_bert.results.comparison import ComparisonResult

_NOTE = Text(
    "同一条说法，各自在自己的发现集上选头，在同样的验证集上检验；q 在各模型自己的主要结论上计算。"
    "这里不检验两个模型之间的差别。",
    "The same claim of each model: heads chosen for each on discovery, tested on the same "
    "validation pairs; q is over each model's own primary findings. Whether the two differ is not "
    "tested here.",
)


def both_findings(
    comparison: ComparisonResult, first: Sequence[ProbeResult], second: Sequence[ProbeResult]
) -> tuple[Block, ...]:
    """Each primary claim with both models' figures, and which probes were not run on B."""
    a, b = names(comparison)
    others = {result.probe: result for result in second}
    rows = [
        row
        for result in first
        if result.probe in others
        for row in _rows(result, others[result.probe])
    ]
    differ = any(row[-1] is not None for row in rows)
    table = Table(
        name="comparison_findings",
        title=Text("结论：两个模型", "Findings of both models"),
        columns=(
            Column("probe", Text("探针", "probe")),
            Column("claim", Text("说法", "claim")),
            Column("a", a),
            Column("verdict_a", Text("A 的判定", "verdict of A")),
            Column("b", b),
            Column("verdict_b", Text("B 的判定", "verdict of B")),
            *(
                (Column("claim_b", Text("B 的说法（不同时）", "B's claim, where it differs")),)
                if differ
                else ()
            ),
        ),
        rows=tuple(rows if differ else (row[:-1] for row in rows)),
        note=_NOTE,
        grouped=True,
    )
    return (*((table,) if rows else ()), *_missing(first, others))


def _rows(first: ProbeResult, second: ProbeResult) -> list[tuple[Cell, ...]]:
    """The claims of A in their order, then those that only B has."""
    left, right = (
        {one.id: one for one in result.findings if one.primary} for result in (first, second)
    )
    return [
        (title_of(first), *_row(left.get(name), right.get(name)))
        for name in dict.fromkeys((*left, *right))
    ]


def _row(a: Finding | None, b: Finding | None) -> tuple[Cell, ...]:
    claim = a.claim if a is not None else None
    other = b.claim if b is not None and b.claim != claim else None
    return (claim, *_found(a), *_found(b), other)


def _found(finding: Finding | None) -> tuple[Cell, Cell]:
    return (None, None) if finding is None else (measured(finding), badge(finding))


def _missing(first: Sequence[ProbeResult], others: dict[str, ProbeResult]) -> tuple[Block, ...]:
    absent = [title_of(result) for result in first if result.probe not in others]
    if not absent:
        return ()
    return (
        Prose(
            body=Text(
                f"没有在 B 上运行：{'、'.join(one.zh for one in absent)}（需要 B 微调前的模型，或尚未完成）。",
                f"Not run on B: {', '.join(one.en for one in absent)} (it needs the model that B "
                "was before fine-tuning, or is not finished).",
            )
        ),
    )
