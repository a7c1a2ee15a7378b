"""Figures of an evaluation, level by level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qt_bert.results.evaluation import ReliabilityBin
from qt_bert.results.figures import Curve, HeatMap, Point, Series
from qt_bert.results.text import Text, counted


def confusion_map(levels: Sequence[str], counts: Sequence[Sequence[int]]) -> HeatMap:
    """`counts[true level][predicted level]` as shares of each true level, in percent."""
    return HeatMap(
        name="confusion",
        title=Text("混淆矩阵", "Confusion matrix"),
        x_label=Text("预测等级", "predicted grade"),
        y_label=Text("标注等级", "true grade"),
        unit=Text("行内占比 %（括号内为对数）", "% of the row (pairs in brackets)"),
        columns=tuple(levels),
        rows=tuple(levels),
        values=tuple(_shares(row) for row in counts),
        annotations=tuple(tuple(f"({count:,})" for count in row) for row in counts),
        marked=tuple((i, i) for i in range(len(levels))),
        low=0.0,
        high=100.0,
        digits=0,
        note=Text("框出的对角线为判对。", "The outlined diagonal is right."),
    )


def _shares(row: Sequence[int]) -> tuple[float | None, ...]:
    total = sum(row)
    return tuple(100 * count / total if total else None for count in row)


def reliability_curve(bins: Iterable[ReliabilityBin]) -> Curve | None:
    """Accuracy over confidence, against the diagonal of a model that is as sure as it is right.

    None where no bin holds a pair.
    """
    points = [point for item in bins if (point := _point(item))]
    if not points:
        return None
    pairs = sum(point.n or 0 for point in points)
    diagonal = (Point(x=0.0, y=0.0), Point(x=1.0, y=1.0))
    return Curve(
        name="reliability",
        title=Text("置信度与准确率", "Confidence and accuracy"),
        x_label=Text("平均最大概率", "mean top probability"),
        y_label=Text("准确率", "accuracy"),
        x_unit="0–1",
        unit="0–1",
        series=(
            Series(name=Text("模型", "model"), points=tuple(points)),
            Series(name=Text("完全校准", "perfectly calibrated"), points=diagonal, dashed=True),
        ),
        note=Text(
            f"点在虚线之下：模型比它的实际表现更自信。依据：{pairs:,} 对。",
            f"Points below the dashed line: more confident than right. Base: {counted(pairs, 'pair')}.",
        ),
    )


def _point(item: ReliabilityBin) -> Point | None:
    if not item.count or item.confidence is None or item.accuracy is None:
        return None
    return Point(x=item.confidence, y=item.accuracy, n=item.count)
