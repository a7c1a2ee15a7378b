"""The head atlas: what is known of every head, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qt_bert.report.blocks import Block, Cell, Column, FigureBlock, Interval, Prose, Table
from qt_bert.report.probes.stability import stability_badge
from qt_bert.results import ProbeResult, Text
from qt_bert.results.atlas import atlas_figures, offered, place_of
from qt_bert.results.head_sets import set_words
from qt_bert.results.head_table import HeadTable, table_of
from qt_bert.results.quantities import Quantity
from qt_bert.results.text import joined

_INTRO = Text(
    "每格一个头（行为层，列为头，都从 0 数起），按一个量着色；粗框是被选出或效应显著的头。"
    "表里是各组头做什么；它们怎样选出、怎样检验，见各探针一节。",
    "One cell a head (rows are layers, columns heads, both from 0), coloured by one quantity; "
    "outlined are the heads that were chosen or whose effect is significant. The table says what "
    "the heads of each set do; how they were chosen and tested stands in each probe's section.",
)


def atlas(results: Sequence[ProbeResult], suffix: str = "", whose: str = "") -> tuple[Block, ...]:
    """The named sets, a map of each quantity, and every head of the sets with what it does.

    `suffix` and `whose` tell a second model's tables and figures from the first one's.
    """
    tables = [table_of(result) for result in results]
    figures = [
        replace(one, name=one.name + suffix, title=_of(one.title, whose))
        for one in atlas_figures(tables)
    ]
    if not figures:
        return ()
    return (
        *(() if whose else (Prose(body=_INTRO),)),
        *_sets(tables, suffix, whose),
        *(FigureBlock(figure=figure) for figure in figures),
        *_heads(tables, suffix, whose),
    )


def _of(title: Text, whose: str) -> Text:
    return Text(f"{title.zh}（{whose}）", f"{title.en} ({whose})") if whose else title


def _sets(tables: Sequence[HeadTable], suffix: str, whose: str) -> tuple[Block, ...]:
    rows = [
        (
            table.title,
            set_words(name).name,
            set_words(name).does,
            len(heads),
            " ".join(heads),
            stability_badge(table.stability.get(name)),
        )
        for table in tables
        for name, heads in table.sets.items()
        if heads
    ]
    if not rows:
        return ()
    return (
        Table(
            name=f"atlas_sets{suffix}",
            title=_of(Text("哪些头做什么", "Which heads do what"), whose),
            columns=(
                Column("probe", Text("探针", "probe")),
                Column("set", Text("哪些头", "heads")),
                Column("does", Text("做什么", "what they do")),
                Column("n", Text("头数", "how many")),
                Column("heads", Text("头", "which"), whole=True),
                Column("stable", Text("稳定吗", "stable")),
            ),
            rows=tuple(rows),
            grouped=True,
        ),
    )


def _heads(tables: Sequence[HeadTable], suffix: str, whose: str) -> tuple[Block, ...]:
    """Head by head, those of the sets alone."""
    named: dict[str, list[str]] = {}
    for table in tables:
        for name, heads in table.sets.items():
            for head in heads:
                named.setdefault(head, []).append(name)
    if not named:
        return ()
    shown = offered(tables)
    scores = [table.rows() for _, table in shown]
    return (
        Table(
            name=f"atlas_heads{suffix}",
            title=_of(Text("每个被选出的头", "Every head chosen"), whose),
            columns=(
                Column("head", Text("头", "head")),
                Column("does", Text("做什么", "what it does")),
                *(Column(one.name, one.title, digits=one.digits) for one, _ in shown),
            ),
            rows=tuple(
                (
                    head,
                    _does(named[head]),
                    *(
                        _cell(quantity, rows.get(head, {}))
                        for (quantity, _), rows in zip(shown, scores, strict=True)
                    ),
                )
                for head in sorted(named, key=place_of)
            ),
            folded=True,
        ),
    )


def _does(sets: Sequence[str]) -> Text:
    """What its sets say of a head, each thing once."""
    return joined(dict.fromkeys(set_words(name).does for name in sets))


def _cell(quantity: Quantity, scores: dict[str, float | None]) -> Cell:
    low, high = quantity.interval(scores) or (None, None)
    return Interval(
        value=quantity.value(scores), low=low, high=high, unit=quantity.unit, digits=quantity.digits
    )
