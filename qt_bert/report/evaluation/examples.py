"""Single pairs: some to see what the model does, and those it graded worst."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Column, Example, Examples, Table
from qt_bert.report.numbers import MISSING
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.evaluation import Grade, GradedPair

_SHOWN = 12


def examples(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The first pairs of the evaluation's examples with their grade distributions."""
    chosen = evaluation.examples[:_SHOWN]
    if not chosen:
        return ()
    return (
        Examples(
            title=Text("模型怎样打分", "What the model does"),
            note=Text(
                f"{len(chosen)} 个样例：每条横杠是模型给该等级的概率（%）；"
                "框住的等级是人工标注，期望等级为 Σ 等级 × 概率。",
                f"{len(chosen)} examples: each bar is the model's probability for a grade (%); the "
                "outlined grade is the human label, the expected grade is Σ grade × probability.",
            ),
            examples=tuple(_example(pair, evaluation.levels) for pair in chosen),
        ),
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
    )


def worst_errors(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The pairs furthest from their label, as a table."""
    if not evaluation.errors:
        return ()
    return (
        Table(
            name="errors",
            title=Text("偏差最大的对", "Pairs furthest off"),
            columns=(
                Column("id", "id"),
                Column("query", Text("查询", "query")),
                Column("title", Text("标题", "title")),
                Column("grade", Text("标注", "label")),
                Column("predicted_grade", Text("预测", "predicted")),
                Column("expected_grade", Text("期望等级", "expected grade"), digits=2),
            ),
            rows=tuple(
                (
                    pair.id,
                    pair.query,
                    pair.title,
                    _shown(pair.grade),
                    _shown(pair.predicted_grade),
                    pair.expected_grade,
                )
                for pair in evaluation.errors
            ),
        ),
    )


def _shown(grade: Grade | None) -> str:
    if grade is None:
        return MISSING
    return f"{grade:g}" if isinstance(grade, float) else str(grade)
