"""What was claimed, what was found, and what follows."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block, Cell, Column, Prose, Table
from qt_bert.report.probes.source import read_probes, title_of
from qt_bert.report.probes.words import badge, conclusion, measured, source_value, tally
from qt_bert.report.section import Section
from qt_bert.results import Finding, Text
from qt_bert.study import RunFolder

_COLUMNS = (
    Column("probe", Text("探针", "probe")),
    Column("claim", Text("说法", "claim")),
    Column("source", Text("原文数值", "article's figure")),
    Column("value", Text("本次结果 [95% 区间]", "measured [95 % interval]")),
    Column("verdict", Text("判定", "verdict")),
    Column("conclusion", Text("可以得出", "what follows")),
)
_NOTE = Text(
    "头在一部分查询上选出，说法在另一部分查询上检验。“复现”要求 95% 区间整个越过事先定下的界限且 q < 0.05；"
    "q 按 Benjamini–Hochberg 法在本报告的全部主要结论上计算，因此可能大于 probes/ 中单个文件所记的值。"
    "“没有影响”的说法要求整个区间落在界限之内。原文的数值仅供对照，不要求一致。",
    "Heads are chosen on one part of the queries, claims tested on the other. “Reproduced” asks "
    "that the 95 % interval lie wholly beyond a margin fixed beforehand and q < 0.05; q is by "
    "Benjamini and Hochberg over all primary findings of this report, so it may exceed the one in "
    "a single file of probes/. A claim of no effect asks for the whole interval within its margin. "
    "The article's figure is shown, and need not be met.",
)


def _build(folder: RunFolder) -> Sequence[Block] | None:
    claims = [
        (title_of(result), finding)
        for result in read_probes(folder)
        for finding in result.findings
        if finding.primary
    ]
    if not claims:
        return None
    table = Table(
        name="findings",
        title=Text("说法、结果与判定", "Claims, results, verdicts"),
        columns=_COLUMNS,
        rows=tuple(_row(title, finding) for title, finding in claims),
        note=_NOTE,
        grouped=True,
    )
    return (Prose(body=tally([finding for _, finding in claims])), table)


def _row(title: Text, finding: Finding) -> tuple[Cell, ...]:
    return (
        title,
        finding.claim,
        source_value(finding),
        measured(finding),
        badge(finding),
        conclusion(finding),
    )


SECTION = Section(name="findings", order=5, title=Text("结论一览", "Findings"), build=_build)
