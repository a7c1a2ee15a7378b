"""The pictures of what heads look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qt_bert.figures import Bars, BarSeries, Curve, Figure, HeatMap, Series
from qt_bert.probes.base import Context
from qt_bert.probes.display import LAYER, head_map, known, resting_on
from qt_bert.probes.features import words
from qt_bert.probes.features.drawing import bar_series, kind_bars, layer_map, point
from qt_bert.probes.features.kinds import KINDS, TUNED
from qt_bert.probes.features.looking import Looking, When
from qt_bert.probes.features.measures import by_layer, empty_heads, has_heads, last_cls, over_heads
from qt_bert.probes.features.study import Part, Study
from qt_bert.probes.naming import Average, average, means
from qt_bert.stats.arrays import FloatArray, ratio
from qt_bert.text import Text, counted

_SHARE = Text("注意力份额", "share of attention")
_NOT_THERE = Text(
    "各类可以重叠（例如“没有”既是动词又是否定词）；文本里没有这一类的不计入。",
    "Kinds may overlap; texts without a token of a kind do not count for it.",
)


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """Layers by kinds, before and after; where the heads are; [CLS] of the last layer."""
    found: list[Figure] = []
    for name, part in study.parts.items():
        seen = part.validation
        own: list[Figure] = [
            *_shares(name, part, context),
            _lifts(name, seen),
            *_changes(name, seen),
        ]
        if name == "pairs":
            own += [*_special_heads(study), _by_layer(seen, context)]
            if has_heads(study.shape, -1):
                own.append(_cls_row(seen, context))
        found += resting_on(_sample(name, seen), own)
    return tuple(found)


def kinds_of(seen: Looking) -> list[str]:
    """The kinds to show: those that the texts have."""
    return [kind for kind in KINDS if kind != TUNED and seen.has(kind)]


def _sample(name: str, seen: Looking) -> Text:
    reads, queries = len(seen.queries), len(set(seen.queries))
    if name == "pairs":
        return Text(
            f"{reads:,} 对、{queries:,} 个查询",
            f"{counted(reads, 'pair')} of {counted(queries, 'query', 'queries')}",
        )
    return Text(f"{2 * reads:,} 个句子", counted(2 * reads, "sentence"))


def _whens(seen: Looking) -> list[tuple[When, Text]]:
    after: tuple[When, Text] = "after", words.AFTER if seen.before is not None else words.MODEL
    return [after] if seen.before is None else [("before", words.BEFORE), after]


def _shares(name: str, part: Part, context: Context) -> Iterator[Bars]:
    """What all heads give to each kind, before and after, beside how many tokens are of it."""
    seen = part.validation
    kinds = kinds_of(seen)

    def averages(values: Sequence[FloatArray]) -> list[Average]:
        return [average(one / words.PERCENT, context.resamples, context.seed) for one in values]

    series = [
        bar_series(said, averages([over_heads(seen.of(kind, when)) for kind in kinds]))
        for when, said in _whens(seen)
    ]
    rates = averages([seen.rate(kind) for kind in kinds])
    tokens = BarSeries(
        name=Text("占全部词元的份额", "share of the tokens"),
        values=tuple(known(one.value) for one in rates),
    )
    where = words.COLLECTIONS[name]
    yield kind_bars(
        f"shares_{name}",
        Text(f"全部头看什么：{where.zh}", f"What all heads look at: {where.en}"),
        _SHARE,
        kinds,
        [*series, tokens],
        _NOT_THERE,
    )


def _lifts(name: str, seen: Looking) -> HeatMap:
    """Attention over base rate, by layer."""
    kinds = kinds_of(seen)
    rates = np.array([means(seen.rate(kind)) for kind in kinds])
    shares = np.stack([means(by_layer(seen.of(kind))) for kind in kinds], axis=1)
    where = words.COLLECTIONS[name]
    return layer_map(
        f"lift_{name}",
        Text(
            f"得到的注意力比词元占比高多少：{where.zh}",
            f"Attention above base rate: {where.en}",
        ),
        words.ABOVE,
        kinds,
        100 * (ratio(shares, np.broadcast_to(rates, shares.shape)) - 1),
        scale="diverging",
        digits=0,
        note=Text(
            "0 是正好按词元的占比得到注意力，100 是两倍，−50 是一半。",
            "0 is attention in the proportion of tokens, 100 twice that, −50 half of it.",
        ),
    )


def _changes(name: str, seen: Looking) -> Iterator[HeatMap]:
    """What fine-tuning changes, by layer."""
    if seen.before is None:
        return
    kinds = kinds_of(seen)
    change = [means(by_layer(seen.of(kind) - seen.of(kind, "before"))) for kind in kinds]
    where = words.COLLECTIONS[name]
    yield layer_map(
        f"change_{name}",
        Text(f"微调使注意力变化多少：{where.zh}", f"What fine-tuning changes: {where.en}"),
        words.POINTS,
        kinds,
        np.stack(change, axis=1) / words.PERCENT,
        scale="diverging",
        digits=1,
    )


def _special_heads(study: Study) -> Iterator[HeatMap]:
    """The attention of every head to [SEP] and to [CLS] (the source's figure 6)."""
    seen = study.pairs.validation
    for kind in ("sep", "cls"):
        said = words.NAMES[kind]
        yield head_map(
            f"heads_{kind}",
            Text(f"每个头给 {said.zh} 的注意力", f"Each head's attention to {said.en}"),
            words.ATTENTION,
            means(seen.of(kind)) / words.PERCENT,
            low=0.0,
            digits=0,
            marked=empty_heads(seen, study.shape),
            note=Text(
                "粗框：把一半以上的注意力给了 [CLS]、[SEP] 和标点的头。",
                "Outlined: heads that give over half of their attention to [CLS], [SEP] and punctuation.",
            ),
        )


def _by_layer(seen: Looking, context: Context) -> Curve:
    """[CLS] and [SEP] by layer; before fine-tuning dashed."""
    series = []
    for when, said in _whens(seen):
        for kind in ("cls", "sep"):
            if seen.has(kind):
                name, layers = words.NAMES[kind], by_layer(seen.of(kind, when)) / words.PERCENT
                points = [
                    point(layer, average(layers[:, layer], context.resamples, context.seed))
                    for layer in range(layers.shape[1])
                ]
                series.append(
                    Series(
                        name=Text(f"{name.zh}，{said.zh}", f"{name.en}, {said.en}"),
                        points=tuple(one for one in points if one is not None),
                        dashed=when == "before",
                    )
                )
    return Curve(
        name="by_layer",
        title=Text("逐层给 [CLS] 和 [SEP] 的注意力", "Attention to [CLS] and [SEP] by layer"),
        x_label=LAYER,
        y_label=_SHARE,
        unit=words.ATTENTION,
        series=tuple(series),
    )


def _cls_row(seen: Looking, context: Context) -> Bars:
    """What [CLS] of the last layer gives to the one token of each kind that it looks at most."""
    kinds = kinds_of(seen)
    series = [
        bar_series(
            said,
            [
                average(last_cls(seen, kind, when) / words.PERCENT, context.resamples, context.seed)
                for kind in kinds
            ],
        )
        for when, said in _whens(seen)
    ]
    return kind_bars(
        "cls_row",
        Text("最后一层的 [CLS] 看什么", "What [CLS] looks at in the last layer"),
        Text("看得最多的那个词元", "the token looked at most"),
        kinds,
        series,
        Text(
            "每一类只取它看得最多的一个词元，各头平均；与原文的算法相同。",
            "Of each kind the one token that it looks at most, averaged over heads, as in the source.",
        ),
    )
