"""The pictures of what matching heads compute."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.data.splits import spread_over_queries
from qt_bert.figures import Bars, BarSeries, Figure, HeatMap, Mark, Scatter
from qt_bert.probes.base import Context
from qt_bert.probes.display import head_map, known, resting_on, sample_of
from qt_bert.probes.naming import Estimate
from qt_bert.probes.surrogate.claims import matched_r, target_of
from qt_bert.probes.surrogate.study import Fits, Study
from qt_bert.probes.surrogate.words import BM25, MATCHED, MATCHING, OVERLAP
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Label, Text

SHOWN = 200
"""Pairs of the scatter plot."""


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """r of what was fitted, each pair's fit beside the model, and r of every head's own feature."""
    base = sample_of(study.validation.on.pairs)
    if study.asked is not None:
        base = study.asked.resting(base)
    drawn: list[Figure] = [_bars(study, context)]
    drawn += [*_scatter(study, context), _head_map(study, context)]
    return tuple(resting_on(base, drawn))


def _bars(study: Study, context: Context) -> Bars:
    rows = [_compared(fits, context.seed) for fits in (study.validation, *study.held_out)]
    names: list[Label] = [Text("验证集", "validation"), *(one.on.name for one in study.held_out)]
    labels = [label for label, found in rows[0].items() if found is not None]

    def series(name: Label, row: dict[Text, Estimate | None]) -> BarSeries:
        found = [row[label] for label in labels]
        return BarSeries(
            name=name,
            values=tuple(None if one is None else known(one.value) for one in found),
            intervals=tuple(
                None if one is None else percentile_interval(one.samples) for one in found
            ),
        )

    what = target_of(context)
    return Bars(
        name="surrogate_r",
        title=Text(f"线性拟合{what.zh}：相关系数", f"Linear fits to {what.en}: correlation"),
        x_label=Text("拟合用的特征", "fitted with"),
        y_label=Text("与模型的相关（r）", "correlation with the model (r)"),
        unit="r",
        categories=tuple(labels),
        series=tuple(map(series, names, rows)),
        note=Text(
            "都在发现集上拟合。已发表的数字（MiniLM）：头 0.816，BM25 0.420",
            "All fitted on discovery. Published for MiniLM: heads 0.816, BM25 0.420",
        ),
    )


def _compared(fits: Fits, seed: int) -> dict[Text, Estimate | None]:
    return {
        MATCHING: None if fits.heads is None else fits.heads.r,
        MATCHED: matched_r(fits, seed),
        BM25: fits.bm25.r,
        OVERLAP: fits.overlap.r,
    }


def _scatter(study: Study, context: Context) -> Sequence[Scatter]:
    fits, what = study.validation, target_of(context)
    if fits.said is None:
        return ()
    shown = {id(pair) for pair in spread_over_queries(fits.on.pairs, SHOWN, context.seed)}
    rows = zip(fits.on.pairs, fits.said, fits.on.grade, strict=True)
    return (
        Scatter(
            name="surrogate_grades",
            title=Text(f"匹配头的拟合与{what.zh}", f"The matching heads' fit and {what.en}"),
            x_label=Text("匹配头的拟合", "the matching heads' fit"),
            y_label=what,
            points=tuple(
                Mark(x=float(said), y=float(grade), series=Text("文本对", "pairs"))
                for pair, said, grade in rows
                if id(pair) in shown
            ),
        ),
    )


def _head_map(study: Study, context: Context) -> HeatMap:
    what = target_of(context)
    return head_map(
        "surrogate_heads",
        Text(
            f"每个头自己的软词频计数与{what.zh}的相关",
            f"Correlation of every head's own soft count with {what.en}",
        ),
        "r",
        study.own_r(study.validation.on),
        marked=study.heads,
        scale="diverging",
        low=-1.0,
        high=1.0,
        note=Text(
            "方向为匹配得分所用的方向；粗框：匹配头",
            "In the direction in which the head was scored for matching; outlined: the matching heads",
        ),
    )
