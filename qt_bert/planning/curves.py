"""Figures of a plan: quality against budget, and the map of heads that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qt_bert.encoder.heads import Head
from qt_bert.planning.choice.measure import Change, Removal
from qt_bert.planning.functions import Functions
from qt_bert.planning.removals import lost_heads
from qt_bert.planning.rivals import NAMES, Removals, averaged
from qt_bert.results.figures import Curve, HeatMap, Point, Series
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan_evidence import TESTED, GridRow
from qt_bert.results.text import Label, Text

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
    rows: Sequence[GridRow],
    removals: Removals,
    measured: Mapping[Removal, Mapping[str, Change]],
    n_queries: int,
) -> Curve | None:
    """ρ's change on validation against the share that stays: the plan's way beside the others.

    `rows` are the budgets of heads or of layers, in the order of `removals`. None without budgets
    or where ρ is not defined.
    """
    series = [
        Series(
            name=NAMES[name],
            points=tuple(_points(rows, removals[name], measured, n_queries)),
            dashed=name in ("matched", "random"),
        )
        for name in NAMES
        if name in removals
    ]
    expected = _expected(rows)
    if not rows or not series or not series[0].points:
        return None
    heads = rows[0].of == "heads"
    what: Label = (
        Text("留下的头", "heads that stay") if heads else Text("留下的层", "layers that stay")
    )
    return Curve(
        name="plan_heads_curve" if heads else "plan_layers_curve",
        title=Text("留下多少头，质量变多少", "Quality by the number of heads")
        if heads
        else Text("留下多少层，质量变多少", "Quality by the number of layers"),
        x_label=what,
        x_unit="%",
        y_label=Text("Spearman ρ 的变化", "change of Spearman's ρ"),
        unit="",
        series=(*series, *expected),
        note=Text(
            "在验证集上实测，不重新训练；色带为 95% 区间。随机取多次抽取的平均。",
            "Measured on validation, without training; bands are 95 % intervals. Random is the mean of "
            "several draws.",
        ),
    )


def _points(
    rows: Sequence[GridRow],
    budgets: Sequence[Sequence[Removal]],
    measured: Mapping[Removal, Mapping[str, Change]],
    n_queries: int,
) -> list[Point]:
    found = []
    for row, drawn in zip(rows, budgets, strict=True):
        change = averaged([measured[one] for one in drawn], TESTED)
        if change is not None:
            low, high = change.ci_low, change.ci_high
            point = Point(x=100 * row.share, y=change.absolute, low=low, high=high, n=n_queries)
            found.append(point)
    return found


def _expected(rows: Sequence[GridRow]) -> list[Series]:
    """What was expected beforehand, as a dashed line."""
    points = [
        Point(x=100 * row.share, y=row.expected[TESTED].value)
        for row in rows
        if TESTED in row.expected
    ]
    if not points:
        return []
    return [Series(name=Text("事先预计", "expected beforehand"), points=tuple(points), dashed=True)]


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
    return HeatMap(
        name="plan_heads",
        title=Text("留下哪些头", "Which heads stay"),
        x_label=Text("头", "head"),
        y_label=Text("层", "layer"),
        unit=Text("‰ 损失", "‰ of loss"),
        columns=tuple(f"H{head}" for head in range(teacher.heads)),
        rows=tuple(f"L{layer}" for layer in range(teacher.layers)),
        values=tuple(
            tuple(None if name in gone else worth.get(name, 0.0) for name in row) for row in names
        ),
        annotations=tuple(map(tuple, letters)) if functions.sets else None,
        marked=tuple(
            (i, j) for i, row in enumerate(letters) for j, letter in enumerate(row) if letter
        ),
        scale="diverging",
        digits=1,
        note=_with_letters(note, functions),
    )


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
