"""The pictures of what layers hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qt_bert.figures import Bars, BarSeries, Curve, Figure, HeatMap, Point, Series
from qt_bert.probes.base import Context
from qt_bert.probes.display import cells, known, resting_on, sample_of
from qt_bert.probes.layers import words
from qt_bert.probes.layers.decode import Decoded
from qt_bert.probes.layers.lengths import Length, Lengths
from qt_bert.probes.layers.property import PROPERTIES, Level
from qt_bert.probes.layers.study import Model, Study
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text

LAYER = Text("层（r0 是嵌入）", "layer (r0: the embeddings)")
PROPERTY = Text("属性", "property")
BAG = Text("字袋", "bag")
LEVELS: Mapping[Level, Text] = {
    "surface": Text("表层", "Surface"),
    "syntax": Text("词与句法", "Words and syntax"),
    "semantics": Text("语义与相关", "Meaning and relevance"),
}


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """Scores and selectivity by layer, centres of gravity, the length without pretraining, mixes."""
    models = [(suffix, name, model) for suffix, name, model in _models(study)]
    drawn: list[Figure] = [_centres(models)]
    for suffix, name, model in models:
        drawn += [*_curves(suffix, name, model), *_maps(suffix, name, model)]
        if model.mixes:
            drawn.append(_mixes(suffix, name, model))
    if study.lengths is not None:
        drawn.append(_lengths(study.lengths, context))
    return tuple(resting_on(sample_of(study.pairs), drawn))


def _models(study: Study) -> Iterator[tuple[str, Text, Model]]:
    if study.base is not None:
        yield "_pretrained", words.PRETRAINED, study.base
    yield "_model", words.TUNED, study.model


def _maps(suffix: str, name: Text, model: Model) -> Iterator[HeatMap]:
    """Score with macro-F1 below it and the bag of characters beside it; selectivity."""
    rows = list(model.decoded.values())
    scores = np.stack([np.concatenate([_bag(model, one), one.score]) for one in rows])
    f1 = tuple(("", *(_f1(value) for value in one.own.macro_f1())) for one in rows)
    yield HeatMap(
        name=f"score{suffix}",
        title=Text(f"各层读出的准确程度（{name.zh}）", f"How well each layer is read ({name.en})"),
        x_label=LAYER,
        y_label=PROPERTY,
        unit=words.SCORE,
        columns=(BAG, *_layers(scores.shape[1] - 1)),
        rows=tuple(_row(one) for one in rows),
        values=cells(scores),
        annotations=f1,
        low=0.0,
        high=1.0,
        note=Text(
            "小字：宏 F1。字袋：只用字的嵌入的平均，不含位置和上下文。",
            "Small: macro-F1. Bag: the mean of the characters' embeddings, without places or context.",
        ),
    )
    above = np.stack([one.selectivity for one in rows])
    yield HeatMap(
        name=f"selectivity{suffix}",
        title=Text(f"选择性（{name.zh}）", f"Selectivity ({name.en})"),
        x_label=LAYER,
        y_label=PROPERTY,
        unit=words.SCORE,
        columns=_layers(above.shape[1]),
        rows=tuple(_row(one) for one in rows),
        values=cells(above),
        scale="diverging",
        note=Text(
            "得分减去对照：字和依存边的对照任务（每个字得一个随机标签），文本的标签置换；"
            "对照还不如猜测（总答最常见的类或平均数）时，减去后者。",
            "The score less its control's: of characters and edges control tasks (each character gets a "
            "random label), of texts permuted labels; or less that of a probe that knows nothing, where "
            "that is higher.",
        ),
    )


def _bag(model: Model, one: Decoded) -> FloatArray:
    bag = model.bags.get(one.task.about.name)
    return np.array([np.nan]) if bag is None else bag.score


def _f1(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else ""


def _row(one: Decoded) -> Text:
    unit = "R²" if one.own.number else Text("准确率", "accuracy")
    zh, en = (unit, unit) if isinstance(unit, str) else (unit.zh, unit.en)
    title = one.task.about.title
    return Text(f"{title.zh}（{zh}）", f"{title.en} ({en})")


def _layers(count: int) -> tuple[str, ...]:
    return tuple(f"r{layer}" for layer in range(count))


def _curves(suffix: str, name: Text, model: Model) -> Iterator[Curve]:
    """Scores as a share of what a probe that knows nothing leaves to be known, a level a picture."""
    for level, title in LEVELS.items():
        # [CLS] has its rows in the maps.
        own = [one for key, one in model.decoded.items() if key in PROPERTIES]
        series = tuple(_share(one) for one in own if one.task.about.level == level)
        if series:
            yield Curve(
                name=f"above_chance_{level}{suffix}",
                title=Text(
                    f"{title.zh}：比猜测读准多少（{name.zh}）",
                    f"{title.en}: above a probe that knows nothing ({name.en})",
                ),
                x_label=LAYER,
                y_label=Text("占可知部分的比例", "share of what there is to know"),
                unit=Text("份额", "share"),
                series=series,
                note=Text(
                    "（得分 − 最常见类的得分）/（1 − 最常见类的得分）；数值属性即 R²。",
                    "(score − that of the commonest class) / (1 − it); of numbers, R².",
                ),
            )


def _share(one: Decoded) -> Series:
    floor = float(one.majority.score()[0])
    shares = (one.score - floor) / (1 - floor) if floor < 1 else np.zeros_like(one.score)
    points = tuple(Point(x=float(x), y=float(y)) for x, y in enumerate(shares))
    return Series(name=one.task.about.title, points=points)


def _centres(models: Sequence[tuple[str, Text, Model]]) -> Bars:
    found = [(name, model.centres) for _, name, model in models]
    names = [name for name in found[0][1] if name in PROPERTIES]
    return Bars(
        name="centres",
        title=Text("逐层增益的重心", "Centre of gravity of the per-layer gains"),
        x_label=PROPERTY,
        y_label=LAYER,
        unit=words.LAYERS,
        categories=tuple(PROPERTIES[name].title for name in names),
        series=tuple(
            BarSeries(
                name=title,
                values=tuple(known(one[name].value) for name in names),
                intervals=tuple(percentile_interval(one[name].samples) for name in names),
            )
            for title, one in found
        ),
        note=Text(
            "增益：一层比它以下最好的一层多读出多少（一半查询选层，另一半计量）；r0 的增益是比猜测读准的部分，算在 0 处。",
            "Gain: what a layer adds to the best below it (layers are chosen on half of the queries, measured on the other); that of r0, above a probe that knows nothing, counts at 0.",
        ),
    )


def _lengths(lengths: Lengths, context: Context) -> Curve:
    """The length by layer of the pretrained model, and the means of the models without pretraining."""
    sets = [
        (words.PRETRAINED, (lengths.base,), False),
        (Text("随机权重，未训练", "random weights, untrained"), lengths.untrained, True),
        (Text("随机权重，微调", "random weights, fine-tuned"), lengths.tuned, True),
    ]
    texts = len(lengths.task.check)
    return Curve(
        name="length_without_pretraining",
        title=Text("长度：有无预训练", "Length, with and without pretraining"),
        x_label=LAYER,
        y_label=words.R2,
        unit=words.R2,
        series=tuple(
            Series(name=name, points=_points(models, context), dashed=dashed)
            for name, models, dashed in sets
            if models
        ),
        note=Text(
            f"同样的 {len(lengths.task.fit):,} 对拼接文本拟合，{texts:,} 对评分",
            f"Fitted on the same {len(lengths.task.fit):,} recombined pairs, scored on {texts:,}",
        ),
    )


def _points(models: Sequence[Length], context: Context) -> tuple[Point, ...]:
    sums = [one.own for one in models]
    values = np.mean([one.score() for one in sums], axis=0)
    drawn = np.mean([one.resampled(context.resamples, context.seed) for one in sums], axis=0)
    ends = [percentile_interval(column) or (None, None) for column in drawn.T]
    return tuple(
        Point(x=float(layer), y=float(value), low=low, high=high)
        for layer, (value, (low, high)) in enumerate(zip(values, ends, strict=True))
    )


def _mixes(suffix: str, name: Text, model: Model) -> HeatMap:
    """The weights of the scalar mix; centre of gravity, expected layer and entropy with the name."""
    rows = list(model.mixes.items())
    said = [(PROPERTIES[key].title, one) for key, one in rows]
    return HeatMap(
        name=f"mix{suffix}",
        title=Text(f"标量混合的权重（{name.zh}）", f"Weights of the scalar mix ({name.en})"),
        x_label=LAYER,
        y_label=PROPERTY,
        unit=Text("权重", "weight"),
        columns=_layers(len(rows[0][1].weights)),
        rows=tuple(
            Text(
                f"{title.zh}（重心 {one.gravity:.1f}，期望层 {_one_digit(one.expected)}，熵 {one.entropy:.2f}）",
                f"{title.en} (centre {one.gravity:.1f}, expected {_one_digit(one.expected)}, entropy {one.entropy:.2f})",
            )
            for title, one in said
        ),
        values=cells(np.stack([one.weights for _, one in rows])),
        low=0.0,
    )


def _one_digit(value: float) -> str:
    return f"{value:.1f}" if np.isfinite(value) else "–"
