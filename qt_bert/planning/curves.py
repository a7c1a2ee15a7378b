"""Figures of a plan: quality against budget, and the map of heads that stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.planning.choice.measure import Removal
from qt_bert.planning.functions import Functions
from qt_bert.planning.removals import lost_heads
from qt_bert.planning.rivals import CHOSEN, DRAWN, NAMES
from qt_bert.results.figures import Curve, HeatMap, Point, Series
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan_evidence import TESTED, GridRow, Measured, RivalRow
from qt_bert.results.text import Text, counted

LETTERS: dict[str, tuple[str, Text]] = {
    "matching": ("M", Text("匹配", "matching")),
    "boundary": ("B", Text("词边界", "word ends")),
    "order": ("O", Text("语序", "order")),
    "reader": ("R", Text("阅读", "reader")),
    "focused": ("F", Text("关注共有词", "focus on shared terms")),
}
"""Functions that the map of heads names, each by a letter."""

PERCENT = Text("%", "%")


def quality_curve(
    rows: Sequence[GridRow], rivals: Sequence[RivalRow], queries: int
) -> Curve | None:
    """ρ's change on validation against the share that stays: the plan's way beside the others.

    `rows` and `rivals` are budgets of heads or of layers, measured on so many `queries`. None for
    fewer than two budgets, or where ρ is not defined.
    """
    chosen = tuple(_point(row, one, queries) for row, one in _measured(rows))
    if len(chosen) < 2:
        return None
    of = rows[0].of
    stay = (
        Text("留下的头", "heads that stay")
        if of == "heads"
        else Text("留下的层", "layers that stay")
    )
    return Curve(
        name=f"plan_{of}_curve",
        title=Text("留下多少头，质量变多少", "Quality by the number of heads")
        if of == "heads"
        else Text("留下多少层，质量变多少", "Quality by the number of layers"),
        x_label=stay,
        x_unit="%",
        y_label=Text("Spearman ρ 的变化", "change of Spearman's ρ"),
        unit="",
        series=(
            Series(name=NAMES[CHOSEN], points=chosen),
            *_rival_series(rows, rivals),
            *_expected(rows),
        ),
        note=Text(
            f"在验证集的 {queries:,} 个查询上实测，不重新训练；色带为本计划的 95% 区间，其余的见下表。随机为几次抽取的平均。",
            f"Measured on {counted(queries, 'query', 'queries')} of validation, without training. The band is this plan's 95 % interval, those of "
            "the others stand in the table. Random is the mean of several draws.",
        ),
    )


def _measured(rows: Sequence[GridRow]) -> Iterator[tuple[GridRow, Measured]]:
    for row in rows:
        if TESTED in row.measured:
            yield row, row.measured[TESTED]


def _point(row: GridRow, one: Measured, queries: int) -> Point:
    return Point(x=100 * row.share, y=one.change, low=one.ci_low, high=one.ci_high, n=queries)


def _rival_series(rows: Sequence[GridRow], rivals: Sequence[RivalRow]) -> Iterator[Series]:
    """A line a rival, without its intervals; random ones are dashed."""
    shares = {row.kept: row.share for row in rows}
    for way, name in NAMES.items():
        points = tuple(
            Point(x=100 * shares[one.kept], y=one.measured.change)
            for one in rivals
            if one.way == way
        )
        if points:
            yield Series(name=name, points=points, dashed=way in DRAWN)


def _expected(rows: Sequence[GridRow]) -> Iterator[Series]:
    """What was expected beforehand, as a dashed line."""
    points = tuple(
        Point(x=100 * row.share, y=row.expected[TESTED].value)
        for row in rows
        if TESTED in row.expected
    )
    if points:
        yield Series(name=Text("事先预计", "expected beforehand"), points=points, dashed=True)


def head_map(
    teacher: TeacherRef,
    chosen: Removal,
    effects: Mapping[Head, float],
    functions: Functions,
) -> HeatMap:
    """Layers × heads: what stays, coloured by what it is worth; what goes is left blank.

    A letter names a head's function; heads with one are outlined.
    """
    gone = lost_heads(chosen, teacher)
    names = [
        [str(Head(layer, head)) for head in range(teacher.heads)] for layer in range(teacher.layers)
    ]
    letters = [["".join(_letters(functions, name)) for name in row] for row in names]
    worth = {str(head): 1000 * effect for head, effect in effects.items()}
    note = Text(
        "空白（—）的头去掉，其余留下；数值为单独去掉这个头时损失的增加（千分之一）。",
        "Blank heads (—) go, the others stay; the value is what the loss gains without this head "
        "alone, in thousandths.",
    )
    values = tuple(
        tuple(None if name in gone else worth.get(name, 0.0) for name in row) for row in names
    )
    end = _colour_end([abs(value) for row in values for value in row if value is not None])
    return HeatMap(
        name="plan_heads",
        title=Text("留下哪些头", "Which heads stay"),
        x_label=Text("头", "head"),
        y_label=Text("层", "layer"),
        unit=Text("‰ 损失", "‰ of loss"),
        columns=tuple(f"H{head}" for head in range(teacher.heads)),
        rows=tuple(f"L{layer}" for layer in range(teacher.layers)),
        values=values,
        annotations=tuple(map(tuple, letters)) if functions.sets else None,
        marked=tuple(
            (i, j) for i, row in enumerate(letters) for j, letter in enumerate(row) if letter
        ),
        scale="diverging",
        low=-end,
        high=end,
        digits=1,
        note=_with_letters(note, functions),
    )


def _colour_end(sizes: Sequence[float]) -> float:
    """Where the colours end: one head in twenty may be worth more, and would hide the others."""
    return max(float(np.quantile(sizes, 0.95)) if sizes else 0.0, 0.1)


def _letters(functions: Functions, head: str) -> list[str]:
    return [letter for name, (letter, _) in LETTERS.items() if head in functions.sets.get(name, ())]


def _with_letters(note: Text, functions: Functions) -> Text:
    """The note, and what the letters mean that occur."""
    known = [(letter, words) for name, (letter, words) in LETTERS.items() if name in functions.sets]
    if not known:
        return note
    zh = "，".join(f"{letter} {words.zh}" for letter, words in known)
    en = ", ".join(f"{letter} {words.en}" for letter, words in known)
    return Text(
        f"{note.zh}有已知功能的头加框：{zh}。",
        f"{note.en} Heads of known function are outlined: {en}.",
    )
