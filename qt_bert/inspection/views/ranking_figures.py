"""A ranking as figures: scores as bars, probabilities as heat maps, titles from the best down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.encoder import ModelLabels
from qt_bert.inspection.views.phrases import AFTER, BEFORE
from qt_bert.inspection.views.ranked_title import RankedTitle
from qt_bert.inspection.views.units import level_name, score_name, score_unit
from qt_bert.results import Bars, HeatMap, Text
from qt_bert.results.figures import BarSeries
from qt_bert.scoring.outputs import Outputs

_LABEL_CHARACTERS = 22


def ranking_figures(
    ranked: Sequence[RankedTitle],
    outputs: Sequence[Outputs],
    order: np.ndarray,
    labels: ModelLabels,
) -> tuple[Bars | HeatMap, ...]:
    """Scores as bars, and the probabilities of each model; `order` [titles] ranks its outputs."""
    names = [f"{one.place}. {shortened(one.title)}" for one in ranked]
    found: list[Bars | HeatMap] = [_score_bars(names, ranked, labels)]
    what = level_name(labels)
    for way, one in zip((BEFORE, AFTER), outputs, strict=False):
        if one.probabilities is not None:
            name = "ranking_distribution" + ("" if way is BEFORE else "_without")
            title = Text(f"各{what.zh}的概率，{way.zh}", f"Probability of each {what.en}, {way.en}")
            found.append(_distribution(name, title, names, one.probabilities[order], labels))
    return tuple(found)


def _score_bars(names: Sequence[str], ranked: Sequence[RankedTitle], labels: ModelLabels) -> Bars:
    series = [BarSeries(name=BEFORE, values=_scores(ranked))]
    if ranked and ranked[0].score_without is not None:
        without = tuple(one.score_without for one in ranked)
        series.append(BarSeries(name=AFTER, values=without))
    return Bars(
        name="ranking_scores",
        title=Text("排序分：每条标题", "Ranking score of every title"),
        x_label=Text(
            "标题（前面是完整模型的名次）", "title (with its place under the whole model)"
        ),
        y_label=score_name(labels),
        unit=score_unit(labels),
        categories=tuple(names),
        series=tuple(series),
        digits=3,
    )


def _scores(ranked: Sequence[RankedTitle]) -> tuple[float, ...]:
    return tuple(one.score for one in ranked)


def _distribution(
    name: str, title: Text, names: Sequence[str], probabilities: np.ndarray, labels: ModelLabels
) -> HeatMap:
    return HeatMap(
        name=name,
        title=title,
        x_label=level_name(labels),
        y_label=Text("标题", "title"),
        unit=Text("概率 %", "probability, %"),
        columns=tuple(labels.names),
        rows=tuple(names),
        values=tuple(tuple(100 * float(p) for p in row) for row in probabilities),
        low=0.0,
        high=100.0,
        digits=1,
    )


def shortened(text: str, characters: int = _LABEL_CHARACTERS) -> str:
    """A title as a chart's label."""
    return text if len(text) <= characters else text[: characters - 1] + "…"
