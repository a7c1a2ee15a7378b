"""Shared by probes: the word segmenter, bars and points of estimates, tables of heads."""

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
    """The requested segmenter; jieba if its words overlap."""
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
            [known(estimate.value) for estimate in estimates],
            [estimate.interval(context.resamples, context.seed) for estimate in estimates],
        )
        for label, estimates in series.items()
    }
    return bars(name, categories, drawn, digits=digits)


def estimate_points(
    context: Context, xs: Sequence[float], estimates: Sequence[Estimate]
) -> list[Point]:
    """Points of a curve, with the intervals of their estimates."""
    none = (None, None)
    ends = [estimate.interval(context.resamples, context.seed) or none for estimate in estimates]
    return [
        Point(x=x, y=estimate.value, low=low, high=high)
        for x, estimate, (low, high) in zip(xs, estimates, ends, strict=True)
    ]


def score_unit(labels: ModelLabels) -> str:
    """The unit of the score, as a text id: grades, other levels, or one logit's `score`."""
    if labels.logits == 1:
        return "score"
    return "levels" if labels.grades is None else "grades"


def lies_above_0(context: Context, estimate: Estimate) -> bool:
    """Whether the 95 % interval lies above 0."""
    interval = estimate.interval(context.resamples, context.seed)
    return interval is not None and interval[0] > 0


def head_table(shape: Shape, columns: Mapping[str, FloatArray]) -> pd.DataFrame:
    """Scores [layers, heads] by name as a table with a row for each present head."""
    heads: list[Head] = shape.all_heads
    return pd.DataFrame(
        {name: [float(values[head]) for head in heads] for name, values in columns.items()},
        index=[str(head) for head in heads],
    )
