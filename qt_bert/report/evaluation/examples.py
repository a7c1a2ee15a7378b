"""Single pairs: some to see what the model does, and those it graded worst."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Column, Example, Examples, Table
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.evaluation import Grade, GradedPair
from qt_bert.results.numbers import MISSING
from qt_bert.results.text import counted

_SHOWN = 12
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
            note=_bars(len(chosen)) if graded else _scores(len(chosen)),
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
