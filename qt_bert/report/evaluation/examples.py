"""Single pairs: some to see what the model does, and those it graded worst."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block, Column, Example, Examples, Moved, Table
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.evaluation import Grade, GradedPair, Reason
from qt_bert.results.numbers import MISSING, clip
from qt_bert.results.text import counted, joined

_SHOWN, _TERMS_SHOWN = 12, 4
_SIDES = {"query": Text("查询", "query"), "title": Text("标题", "title")}
_GRADED = (
    Column("predicted_grade", Text("预测", "predicted")),
    Column("expected_grade", Text("期望等级", "expected grade"), digits=2),
)
_SCORE = Column("score", Text("分数", "score"))


def examples(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The first pairs of the evaluation's examples with their grade distributions."""
    chosen = evaluation.examples[:_SHOWN]
    if not chosen:
        return ()
    graded = any(pair.score is None for pair in chosen)
    return (
        Examples(
            title=Text("模型怎样打分", "What the model does"),
            note=joined([_bars(len(chosen)) if graded else _scores(len(chosen)), _reasons(chosen)]),
            examples=tuple(_example(pair, evaluation.levels) for pair in chosen),
        ),
    )


def _bars(n: int) -> Text:
    return Text(
        f"{n} 个样例：每条横杠是模型给该等级的概率（%）；框住的等级是人工标注，期望等级为 Σ 等级 × 概率。",
        f"{counted(n, 'example')}: each bar is the model's probability for a grade (%); the outlined "
        "grade is the human label, the expected grade is Σ grade × probability.",
    )


def _scores(n: int) -> Text:
    return Text(
        f"{n} 个样例：模型只给一个分数，没有等级；分数只用来排序。",
        f"{counted(n, 'example')}: the model gives one score and no grade; scores only rank.",
    )


def _reasons(pairs: Sequence[GradedPair]) -> Text:
    """How terms and heads were tried out; nothing where they were not."""
    told = [pair.reason for pair in pairs if pair.reason]
    if not told:
        return Text("", "")
    filler, n = told[0].filler, sum(bool(one.carried_by) for one in told)
    zh = f"词的变化：把这个词的每个词元换成 {filler}，长度不变；只列最大的 {_TERMS_SHOWN} 个。"
    en = (
        f"Change by a term: {filler} stands for each of its tokens, so that the length stays; the "
        f"largest {_TERMS_SHOWN} are shown."
    )
    if n:
        zh += f"其中 {n} 例还逐个把头的输出换回原样，列出换回最多的头（各头的份额不能相加）。"
        en += (
            f" For {counted(n, 'example')} heads were put back one at a time as they are in the whole "
            "pair; those that restore most are named (shares do not add up)."
        )
    return Text(zh, en)


def _example(pair: GradedPair, levels: tuple[str, ...]) -> Example:
    probabilities = pair.p or ()
    if len(levels) != len(probabilities):  # a coarse label: the model still has its own grades
        levels = tuple(str(i + 1) for i in range(len(probabilities)))
    return Example(
        query=pair.query,
        title=pair.title,
        grade=_shown(pair.grade),
        predicted=_shown(pair.predicted_grade),
        expected=pair.expected_grade,
        levels=levels,
        probabilities=probabilities,
        score=pair.score,
        moved_by=_moved_by(pair.reason),
        carried_by=_carried_by(pair.reason),
    )


def _moved_by(reason: Reason | None) -> tuple[Moved, ...]:
    """The terms that move the grade, the largest change first."""
    if reason is None:
        return ()
    moved = sorted((one for one in reason.terms if one.moved), key=lambda one: -abs(one.change))
    return tuple(
        Moved(term=one.term, side=_SIDES[one.side], change=one.change)
        for one in moved[:_TERMS_SHOWN]
    )


def _carried_by(reason: Reason | None) -> Text | None:
    if reason is None or reason.told_by is None or not reason.carried_by:
        return None
    term = clip(reason.terms[reason.told_by].term, 24)
    heads = "、".join(f"{one.head} {one.share:.0%}" for one in reason.carried_by)
    return Text(
        f"换回“{term}”最多的头：{heads}", f"“{term}” restored by {heads.replace('、', ', ')}"
    )


def worst_errors(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The pairs furthest from their label, as a table."""
    if not evaluation.errors:
        return ()
    graded = any(pair.score is None for pair in evaluation.errors)
    return (
        Table(
            name="errors",
            title=Text("偏差最大的对", "Pairs furthest off"),
            columns=(
                Column("id", "id"),
                Column("query", Text("查询", "query")),
                Column("title", Text("标题", "title")),
                Column("grade", Text("标注", "label")),
                *(_GRADED if graded else (_SCORE,)),
            ),
            rows=tuple(
                (
                    pair.id,
                    pair.query,
                    pair.title,
                    _shown(pair.grade),
                    *(
                        (_shown(pair.predicted_grade), pair.expected_grade)
                        if graded
                        else (pair.score,)
                    ),
                )
                for pair in evaluation.errors
            ),
        ),
    )


def _shown(grade: Grade | None) -> str:
    if grade is None:
        return MISSING
    return f"{grade:g}" if isinstance(grade, float) else str(grade)
