"""Level by level: confusion, precision and recall, reliability."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Column, FigureBlock, Table
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.evaluation_figures import confusion_map, reliability_curve


def confusion(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Shares of each true level as a heat map."""
    counts, levels = evaluation.confusion, evaluation.levels
    if counts is None:
        return ()
    return (FigureBlock(figure=confusion_map(levels, counts)),)


def confusion_counts(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """The same matrix in pairs, as a table to open."""
    counts, levels = evaluation.confusion, evaluation.levels
    if counts is None:
        return ()
    table = Table(
        name="confusion",
        title=Text("混淆矩阵的对数", "Confusion matrix in pairs"),
        columns=(
            Column("true", Text("标注 \\ 预测", "true \\ predicted")),
            *(Column(f"predicted_{level}", level) for level in levels),
        ),
        rows=tuple((level, *row) for level, row in zip(levels, counts, strict=True)),
        folded=True,
    )
    return (table,)


def reliability(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Accuracy over confidence."""
    figure = reliability_curve(evaluation.reliability or ())
    return () if figure is None else (FigureBlock(figure=figure),)


def per_grade(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Precision, recall and F1 of every level."""
    if evaluation.per_grade is None:
        return ()
    return (
        Table(
            name="per_grade",
            title=Text("各等级", "Level by level"),
            columns=(
                Column("level", Text("等级", "level")),
                Column("precision", Text("精确率（0–1）", "precision (0–1)")),
                Column("recall", Text("召回率（0–1）", "recall (0–1)")),
                Column("f1", "F1 (0–1)"),
                Column("support", Text("对数", "pairs")),
            ),
            rows=tuple(
                (row.level, row.precision, row.recall, row.f1, row.support)
                for row in evaluation.per_grade
            ),
        ),
    )
