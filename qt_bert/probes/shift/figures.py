"""The pictures of what fine-tuning changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qt_bert.figures import Bars, BarSeries, Figure, HeatMap
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.display import head_map, resting_on, sample_of
from qt_bert.probes.naming import average, means
from qt_bert.probes.shift.case import QUERY, TITLE, Case
from qt_bert.probes.shift.case_maps import case_maps
from qt_bert.probes.shift.claims import of_heads
from qt_bert.probes.shift.compare import WEIGHTS
from qt_bert.probes.shift.set_back_report import set_back_figures
from qt_bert.probes.shift.starts_report import start_figures
from qt_bert.probes.shift.study import Study
from qt_bert.probes.shift.words import AFTER, ATTENTION, BEFORE, CHANGE, PERCENT, WEIGHT_NAMES
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """Weights, likeness and change by head; layers set back; the starts; the article's case."""
    measured: tuple[Figure, ...] = (*_weights(study, context), _rise(study), *_likenesses(study))
    return (
        *resting_on(sample_of(study.validation.pairs), measured),
        *set_back_figures(study.set_back),
        *(() if study.starts is None else start_figures(study.starts)),
        *(case_maps(study.case, _about(study.case)) if study.case else ()),
    )


def _weights(study: Study, context: Context) -> Iterator[Bars]:
    sets = (
        (
            "matching",
            study.on_base.heads,
            Text("微调前选出的匹配头看什么", "What the heads chosen before fine-tuning look at"),
        ),
        ("all", study.shape.all_heads, Text("全部头看什么", "What all heads look at")),
    )
    for name, heads, title in sets:
        if heads:
            yield Bars(
                name=f"weights_{name}",
                title=title,
                x_label=Text("看的对象", "looked at"),
                y_label=Text("平均权重", "mean weight"),
                unit=ATTENTION,
                categories=tuple(WEIGHT_NAMES[weight] for weight in WEIGHTS),
                series=(
                    _series(study, "before", BEFORE, heads, context),
                    _series(study, "after", AFTER, heads, context),
                ),
                digits=1,
            )


def _series(
    study: Study, when: str, name: Text, heads: Sequence[Head], context: Context
) -> BarSeries:
    found = [
        average(
            of_heads(study.validation.weight(when, weight), heads) / PERCENT,
            context.resamples,
            context.seed,
        )
        for weight in WEIGHTS
    ]
    return BarSeries(
        name=name,
        values=tuple(None if np.isnan(one.value) else one.value for one in found),
        intervals=tuple(percentile_interval(one.samples) for one in found),
    )


def _rise(study: Study) -> HeatMap:
    return head_map(
        "change_matched",
        Text("给相同的词的注意力的变化", "Change of the attention to matched terms"),
        CHANGE,
        means(study.validation.change("matched")) / PERCENT,
        scale="diverging",
        digits=1,
        marked=study.strengthened.heads(),
        note=Text(
            "粗框：在发现集上被命名为匹配得到加强的头。",
            "Outlined: heads named on discovery as strengthened in matching.",
        ),
    )


def _likenesses(study: Study) -> Iterator[HeatMap]:
    """Of the maps before and after; and of the maps of two seeds, where there are two."""
    seen = study.validation
    title = Text("微调前后注意力图的余弦", "Cosine of the maps before and after")
    yield _cosine("cosine", title, means(seen.alike("cosine")))
    title = Text(
        "微调前后注意力图的余弦，只算两段文本的列（不含 [CLS]、[SEP]）",
        "Cosine of the maps over the texts' columns, without [CLS] and [SEP]",
    )
    yield _cosine("cosine_texts", title, means(seen.alike("cosine_texts")))
    yield head_map(
        "js_distance",
        Text(
            "微调前后注意力分布的 JS 距离",
            "Jensen–Shannon distance of the distributions before and after",
        ),
        Text("JS 距离", "JS distance"),
        means(seen.alike("js_distance")),
        low=0.0,
    )
    if study.beside is not None:
        title = Text(
            "换一个种子微调的两个模型，注意力图的余弦",
            "Cosine of the maps of two models tuned with different seeds",
        )
        yield _cosine("cosine_second_seed", title, means(study.beside.alike("cosine")))


def _cosine(name: str, title: Text, values: FloatArray) -> HeatMap:
    return head_map(name, title, Text("余弦", "cosine"), values, high=1.0)


def _about(case: Case) -> Text:
    return Text(f"{case.head}：{QUERY} / {TITLE}", f"{case.head}: {QUERY} / {TITLE}")
