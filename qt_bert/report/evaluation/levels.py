"""Level by level: confusion, precision and recall, reliability."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Column, FigureBlock, Table
from qt_bert.results import Curve, EvaluationResult, HeatMap, Text
from qt_bert.results.evaluation import ReliabilityBin
from qt_bert.results.figures import Point, Series


def confusion(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Shares of each true level as a heat map."""
    counts, levels = evaluation.confusion, evaluation.levels
    if counts is None:
        return ()
    figure = HeatMap(
        name="confusion",
        title=Text("混淆矩阵", "Confusion matrix"),
        x_label=Text("预测等级", "predicted grade"),
        y_label=Text("标注等级", "true grade"),
        unit=Text("行内占比 %（括号内为对数）", "% of the row (pairs in brackets)"),
        columns=levels,
        rows=levels,
        values=tuple(_shares(row) for row in counts),
        annotations=tuple(tuple(f"({count:,})" for count in row) for row in counts),
        marked=tuple((i, i) for i in range(len(levels))),
        low=0.0,
        high=100.0,
        digits=0,
        note=Text("框出的对角线为判对。", "The outlined diagonal is right."),
    )
    return (FigureBlock(figure=figure),)


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


def _shares(row: tuple[int, ...]) -> tuple[float | None, ...]:
    total = sum(row)
    return tuple(100 * count / total if total else None for count in row)


def reliability(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Accuracy over confidence, against the diagonal of a model that is as sure as it is right."""
    bins = [point for item in evaluation.reliability or () if (point := _point(item))]
    if not bins:
        return ()
    diagonal = (Point(x=0.0, y=0.0), Point(x=1.0, y=1.0))
    return (
        FigureBlock(
            figure=Curve(
                name="reliability",
                title=Text("置信度与准确率", "Confidence and accuracy"),
                x_label=Text("平均最大概率", "mean top probability"),
                y_label=Text("准确率", "accuracy"),
                x_unit="0–1",
                unit="0–1",
                series=(
                    Series(name=Text("模型", "model"), points=tuple(bins)),
                    Series(
                        name=Text("完全校准", "perfectly calibrated"), points=diagonal, dashed=True
                    ),
                ),
                note=Text(
                    "点在虚线之下：模型比它的实际表现更自信。",
                    "Points below the dashed line: more confident than right.",
                ),
            )
        ),
    )


def _point(item: ReliabilityBin) -> Point | None:
    if not item.count or item.confidence is None or item.accuracy is None:
        return None
    return Point(x=item.confidence, y=item.accuracy, n=item.count)


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
