"""How the model came to be: losses and quality over the steps of training."""

from __future__ import annotations

from qt_bert.report.blocks import Block, FigureBlock
from qt_bert.results import Curve, EvaluationResult, Text
from qt_bert.results.figures import Point, Series
from qt_bert.results.text import Label


def learning_curves(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """Losses in one figure, everything else that was logged in another, over the step."""
    rows = [row for row in evaluation.learning_curve or () if row.get("step") is not None]
    names = list(dict.fromkeys(name for row in rows for name in row if name != "step"))
    losses = [_series(rows, name) for name in names if "loss" in name]
    others = [_series(rows, name) for name in names if "loss" not in name]
    figures = [
        _figure("learning_loss", Text("训练曲线：损失", "Learning curve: loss"), losses, "nat"),
        _figure("learning_quality", Text("训练曲线：质量", "Learning curve: quality"), others, ""),
    ]
    return tuple(FigureBlock(figure=figure) for figure in figures if figure.series)


def _series(rows: list[dict[str, float | None]], name: str) -> Series:
    points = [
        Point(x=step, y=value)
        for row in rows
        if (step := row["step"]) is not None and (value := row.get(name)) is not None
    ]
    return Series(name=name, points=tuple(points))


def _figure(name: str, title: Text, series: list[Series], unit: Label) -> Curve:
    return Curve(
        name=name,
        title=title,
        x_label=Text("训练步", "training step"),
        y_label=Text("值", "value"),
        unit=unit,
        series=tuple(line for line in series if line.points),
    )
