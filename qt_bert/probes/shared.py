"""What several probes share: the reference for words, bars of estimates, heads as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.figures import Bars, Point, bars, known
from qt_bert.heads import Head, Shape
from qt_bert.models.card import ModelLabels
from qt_bert.probes.base import Context
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, Interval
from qt_bert.text import Label


def partition(context: Context) -> Segmenter:
    """The segmenter asked for; jieba where that one's words overlap."""
    if context.request.segmenter in ("jieba", "rjieba"):
        return context.segmenter
    return segmenter("jieba", context.request.userdict)


def estimate_bars(
    context: Context,
    name: str,
    categories: Sequence[str],
    series: Mapping[str, Sequence[Estimate]],
    *,
    digits: int = 2,
) -> Bars:
    """Bars of estimates with their intervals; a series has one estimate a category."""
    drawn: dict[Label, tuple[list[float | None], list[Interval | None]]] = {
        label: (
            [known(one.value) for one in estimates],
            [one.interval(context.resamples, context.seed) for one in estimates],
        )
        for label, estimates in series.items()
    }
    return bars(name, categories, drawn, digits=digits)


def estimate_points(
    context: Context, xs: Sequence[float], estimates: Sequence[Estimate]
) -> list[Point]:
    """Points of a curve, with the intervals of their estimates."""
    none = (None, None)
    ends = [one.interval(context.resamples, context.seed) or none for one in estimates]
    return [
        Point(x=x, y=one.value, low=low, high=high)
        for x, one, (low, high) in zip(xs, estimates, ends, strict=True)
    ]


def score_unit(labels: ModelLabels) -> str:
    """What the score counts in: grades, levels where outputs are none, or one logit's own unit."""
    if labels.logits == 1:
        return "score"
    return "levels" if labels.grades is None else "grades"


def lies_above_0(context: Context, estimate: Estimate) -> bool:
    """Whether the 95 % interval lies above 0: elsewhere a share of the estimate means nothing."""
    interval = estimate.interval(context.resamples, context.seed)
    return interval is not None and interval[0] > 0


def head_table(shape: Shape, columns: Mapping[str, FloatArray]) -> pd.DataFrame:
    """Scores [layers, heads] by name as a table with a row for each head that is there."""
    heads: list[Head] = shape.all_heads
    return pd.DataFrame(
        {name: [float(values[head]) for head in heads] for name, values in columns.items()},
        index=[str(head) for head in heads],
    )
