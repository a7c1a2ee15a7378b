"""The section of one probe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from qt_bert.report.blocks import Block, Cell, Column, FigureBlock, Prose, Table
from qt_bert.report.probes.stability import COLUMNS, NOTE, stability_cells
from qt_bert.report.probes.words import badge, measured, source_place, source_value
from qt_bert.results import Finding, ProbeResult, Text
from qt_bert.results.head_sets import set_words
from qt_bert.results.numbers import plain, shortest
from qt_bert.results.text import counted

_FINDINGS = (
    Column("source", Text("来源", "source")),
    Column("claim", Text("说法", "claim")),
    Column("there", Text("原文数值", "figure there")),
    Column("value", Text("本次结果 [95% 区间]", "measured [95 % interval]")),
    Column("verdict", Text("判定", "verdict")),
    Column("margin", Text("界限", "margin")),
    Column("visible", Text("可见效应", "visible effect")),
    Column("p", "p", digits=4, least=True),
    Column("q", "q", digits=4, least=True),
    Column("n_queries", Text("查询数", "queries")),
)
_NOTE = Text(
    "“可见效应”为区间半宽：比它小的效应在这份样本上看不出来。没有判定的行只作对照，不是主要结论。",
    "The visible effect is half the interval's width: this sample cannot show a smaller one. Rows "
    "without a verdict stand beside the claims and are none.",
)


def probe_blocks(result: ProbeResult) -> tuple[Block, ...]:
    """Summary, findings, figures, sample, named sets; the heads' scores and settings to open."""
    figures = [replace(one, name=_unique(result.probe, one.name)) for one in result.figures]
    return (
        Prose(body=result.summary),
        *_findings(result),
        *(FigureBlock(figure=figure) for figure in figures),
        Prose(title=Text("样本", "Sample"), body=_sample(result)),
        *_sets(result),
        *_heads(result),
        _settings(result),
    )


def _unique(probe: str, name: str) -> str:
    """A figure's name in the page; in its file it is unique, and may begin with the probe's."""
    return name if name.startswith(f"{probe}_") else f"{probe}_{name}"


def _findings(result: ProbeResult) -> tuple[Block, ...]:
    if not result.findings:
        return ()
    return (
        Table(
            name=f"{result.probe}_findings",
            title=Text("说法与判定", "Claims and verdicts"),
            columns=_FINDINGS,
            rows=tuple(map(_row, result.findings)),
            note=_NOTE,
            grouped=True,
        ),
    )


def _row(finding: Finding) -> tuple[Cell, ...]:
    low, high = finding.ci_low, finding.ci_high
    half = None if low is None or high is None else shortest((high - low) / 2)
    return (
        source_place(finding),
        finding.claim,
        source_value(finding),
        measured(finding),
        badge(finding),
        None if finding.margin is None else shortest(finding.margin),
        half,
        finding.p,
        finding.q,
        finding.n_queries,
    )


def _sample(result: ProbeResult) -> Text:
    pairs, queries = result.pairs.n_pairs, result.pairs.n_queries
    name = result.pairs.name
    zh, en = f"验证：{name}。", f"Validation: {name}."
    if pairs is not None and queries is not None:
        zh = f"验证：{name} 的 {pairs:,} 对、{queries:,} 个查询。"
        en = (
            f"Validation: {counted(pairs, 'pair')} of {name}, "
            f"{counted(queries, 'query', 'queries')}."
        )
    resolution = result.settings.get("resolution")
    if isinstance(resolution, Mapping):
        zh += str(resolution.get("zh", ""))
        en = f"{en} {resolution.get('en', '')}".rstrip()
    return Text(zh, en)


def _sets(result: ProbeResult) -> tuple[Block, ...]:
    if not result.sets:
        return ()
    teachers = {one.head: f"{one.head}({one.teacher})" for one in result.heads if one.teacher}
    return (
        Table(
            name=f"{result.probe}_sets",
            title=Text("选出的头", "Heads chosen"),
            columns=(
                Column("set", Text("集合", "set")),
                Column("what", Text("哪些头", "heads")),
                Column("n", Text("头数", "how many")),
                Column("heads", Text("头", "which"), whole=True),
                *(COLUMNS if result.stability else ()),
            ),
            rows=tuple(
                (
                    name,
                    set_words(name).name,
                    len(heads),
                    " ".join(teachers.get(head, head) for head in heads) or None,
                    *(stability_cells(result.stability.get(name)) if result.stability else ()),
                )
                for name, heads in result.sets.items()
            ),
            note=NOTE if result.stability else None,
        ),
    )


def _heads(result: ProbeResult) -> tuple[Block, ...]:
    if not result.heads:
        return ()
    scores = list(dict.fromkeys(name for head in result.heads for name in head.scores))
    selected = Text("选中", "selected")
    taught = any(one.teacher for one in result.heads)
    return (
        Table(
            name=f"{result.probe}_heads",
            title=Text("每个头的分数", "Scores of every head"),
            columns=(
                Column("head", Text("头", "head")),
                Column("selected", selected),
                *((Column("teacher", Text("教师中的名字", "in the teacher")),) if taught else ()),
                *(Column(name, name) for name in scores),
            ),
            rows=tuple(
                (
                    one.head,
                    selected if one.selected else "",
                    *((one.teacher,) if taught else ()),
                    *map(one.scores.get, scores),
                )
                for one in result.heads
            ),
            folded=True,
        ),
    )


def _settings(result: ProbeResult) -> Table:
    return Table(
        name=f"{result.probe}_settings",
        title=Text("这一探针的设置", "Settings of this probe"),
        columns=(Column("name", Text("名称", "name")), Column("value", Text("值", "value"))),
        rows=tuple((name, plain(value)) for name, value in _flat(result.settings)),
        folded=True,
    )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
