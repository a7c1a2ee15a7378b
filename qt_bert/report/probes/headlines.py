"""What the probes found, in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block, Prose, Statement, Statements
from qt_bert.report.probes.source import anchor_of, title_of
from qt_bert.report.probes.words import badge, conclusion, measured, tally
from qt_bert.results import Finding, ProbeResult, Text
from qt_bert.results.text import joined

_MOST = 5
_NOTE = Text(
    "复现：文献的说法在这个模型上成立；未复现：不成立。方括号内为 95% 置信区间。"
    "每个探针取它第一条有定论的说法；全部说法见“结论一览”。",
    "Reproduced: what the literature claims holds for this model; not reproduced: it does not. "
    "Brackets hold 95 % intervals. Of each probe this is the first claim that was decided; for all "
    "of them see “Findings”.",
)


def headlines(results: Sequence[ProbeResult]) -> tuple[Block, ...]:
    """The first decided claim of each probe, five at most, and how all claims came out."""
    decided = [(result, found) for result in results if (found := _decided(result))]
    claims = [one for result in results for one in result.findings if one.primary]
    if not claims:
        return ()
    counted = Prose(body=joined((tally(claims), _open(results))))
    if not decided:
        return (counted,)
    listed = Statements(
        title=Text("发现了什么", "What was found"),
        statements=tuple(_statement(*one) for one in decided[:_MOST]),
        note=_NOTE,
    )
    return (listed, counted)


def _decided(result: ProbeResult) -> Finding | None:
    """A probe lists its main claim first."""
    decided = ("reproduced", "not reproduced")
    return next((one for one in result.findings if one.primary and one.verdict in decided), None)


def _statement(result: ProbeResult, finding: Finding) -> Statement:
    return Statement(
        claim=finding.claim,
        badge=badge(finding),
        value=measured(finding),
        follows=conclusion(finding),
        section=anchor_of(result),
        heading=title_of(result),
    )


def _open(results: Sequence[ProbeResult]) -> Text:
    """The probes of which no claim was decided."""
    names = [
        title_of(one)
        for one in results
        if any(finding.primary for finding in one.findings) and _decided(one) is None
    ]
    if not names:
        return Text("", "")
    return Text(
        f"尚无定论：{'、'.join(name.zh for name in names)}。",
        f"Not decided either way: {', '.join(name.en for name in names)}.",
    )
