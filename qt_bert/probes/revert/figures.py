"""The pictures of tuning taken back, and of attention before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qt_bert.ablation.interventions import EMBEDDINGS, Variant
from qt_bert.figures import Bars, BarSeries, Curve, Figure, HeatMap, Point, Series
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.display import head_map, known, resting_on, sample_of
from qt_bert.probes.naming import Estimate, average, means
from qt_bert.probes.revert.attention import When
from qt_bert.probes.revert.cells import QUANTITIES
from qt_bert.probes.revert.changes import Changes
from qt_bert.probes.revert.study import Study
from qt_bert.probes.revert.words import QUANTITY_NAMES
from qt_bert.probes.shift.words import AFTER, ATTENTION, BEFORE, CHANGE, PERCENT
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Label, Text

CLAIMED = ("across", "same")


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """What is set back and what that costs; attention before and after, by kind, layer and head."""
    changes: list[Figure] = [_changes(study), *_each(study), *_layers(study)]
    seen: list[Figure] = [
        _before_and_after(study, context),
        _by_layer(study, context),
        *_by_head(study),
    ]
    bases = sample_of(study.pairs), sample_of(study.attention.pairs)
    if study.asked is not None:
        bases = study.asked.resting(bases[0]), study.asked.resting(bases[1])
    return (*resting_on(bases[0], changes), *resting_on(bases[1], seen))


def _changes(study: Study) -> Bars:
    """What each set costs, a series for validation and for every file held out."""
    what, unit, _ = study.changes.measure("spearman")
    rows = [dict(_set_back(study, one)) for one in (study.changes, *study.held_out)]
    names: list[Label] = [Text("验证集", "validation"), *(one.name for one in study.held_out)]
    labels = [label for label in rows[0] if any(row[label] is not None for row in rows)]

    def series(name: Label, row: Mapping[Text, Estimate | None]) -> BarSeries:
        found = [row[label] for label in labels]
        return BarSeries(
            name=name,
            values=tuple(None if one is None else known(one.value) for one in found),
            intervals=tuple(
                None if one is None else percentile_interval(one.samples) for one in found
            ),
        )

    return Bars(
        name="revert_changes",
        title=Text(
            f"换回微调前的权重，{what.zh}的变化", f"Change of {what.en} with weights set back"
        ),
        x_label=Text("换回的部分", "set back"),
        y_label=Text("变化", "change"),
        unit=unit,
        categories=tuple(labels),
        series=tuple(map(series, names, rows)),
        digits=3,
    )


def _set_back(study: Study, changes: Changes) -> Iterator[tuple[Text, Estimate | None]]:
    made = study.reversions
    if made.contest is not None:
        yield Text("匹配头", "matching heads"), changes.of(made.contest.target)
        yield (
            Text("同层其他头（平均）", "others of their layers (mean)"),
            changes.mean(made.contest.matched),
        )
    if made.kept is not None:
        yield Text("匹配头以外的头", "all heads but them"), changes.of(made.kept)
    yield Text("全部头", "all heads"), changes.of(made.heads)
    yield Text("嵌入层和全部层", "embeddings, all layers"), changes.of(made.everything)


def _each(study: Study) -> Iterator[HeatMap]:
    """Every head set back alone, and every head kept while all others are set back."""
    made, changes = study.reversions, study.changes
    what, unit, _ = changes.measure("spearman")
    if made.alone:
        yield head_map(
            "revert_one",
            Text(f"只换回一个头，{what.zh}的变化", f"Change of {what.en} with one head set back"),
            unit,
            of_each(study, made.alone),
            marked=study.heads,
            scale="diverging",
            digits=3,
            note=Text("粗框：匹配头。", "Outlined: the matching heads."),
        )
    if made.kept_alone:
        yield head_map(
            "keep_one",
            Text(
                f"只留一个头的微调、换回其他头，{what.zh}比全部换回高多少",
                f"{what.en} with one head's tuning kept and all other heads set back, beyond all set back",
            ),
            unit,
            of_each(study, made.kept_alone) - changes.value(made.heads),
            marked=study.heads,
            scale="diverging",
            digits=3,
            note=Text("粗框：匹配头。", "Outlined: the matching heads."),
        )


def of_each(study: Study, variants: Mapping[Head, Variant]) -> FloatArray:
    """The change of ρ under the variant of each head [layers, heads]; NaN where there is none."""
    found = np.full(study.shape.size, np.nan)
    for head, variant in variants.items():
        found[head] = study.changes.value(variant)
    return found


def _layers(study: Study) -> Iterator[Bars]:
    layers = study.reversions.layers
    if not layers:
        return
    what, unit, _ = study.changes.measure("spearman")
    found = [study.changes.of(variant) for variant in layers.values()]
    yield Bars(
        name="revert_layers",
        title=Text(
            f"只换回一层，{what.zh}的变化", f"Change of {what.en} with one layer alone set back"
        ),
        x_label=Text("换回的层", "layer set back"),
        y_label=Text("变化", "change"),
        unit=unit,
        categories=tuple(
            Text("嵌入层", "embeddings") if layer == EMBEDDINGS else f"L{layer}" for layer in layers
        ),
        series=(
            BarSeries(
                name=what,
                values=tuple(None if one is None else known(one.value) for one in found),
                intervals=tuple(
                    None if one is None else percentile_interval(one.samples) for one in found
                ),
            ),
        ),
        digits=3,
    )


def _before_and_after(study: Study, context: Context) -> Bars:
    def series(when: When, name: Text) -> BarSeries:
        found = [
            average(
                study.attention.weight(when, one).mean(axis=(1, 2)) / PERCENT,
                context.resamples,
                context.seed,
            )
            for one in QUANTITIES
        ]
        return BarSeries(
            name=name,
            values=tuple(known(one.value) for one in found),
            intervals=tuple(percentile_interval(one.samples) for one in found),
        )

    return Bars(
        name="revert_attention",
        title=Text(
            "给相同的词的注意力，微调前后", "Attention to the same word before and after tuning"
        ),
        x_label=Text("看的对象", "looked at"),
        y_label=Text("平均权重（全部头）", "mean weight (all heads)"),
        unit=ATTENTION,
        categories=tuple(QUANTITY_NAMES[one] for one in QUANTITIES),
        series=(series("before", BEFORE), series("after", AFTER)),
        digits=1,
        note=Text(
            "“只算两段文本”：占给两段文本中其他词的注意力的份额；其余为占全部注意力的份额。"
            "前两项只看两段文本共有的词，后四项看所有的词。",
            "Texts alone: as a share of what goes to other tokens of the two texts; all others as shares "
            "of all attention. The first two are of terms that both texts share, the others of all words.",
        ),
    )


def _by_layer(study: Study, context: Context) -> Curve:
    def points(name: str) -> Iterator[Point]:
        change = study.attention.change(name).mean(axis=2) / PERCENT
        for layer in range(study.shape.layers):
            found = average(change[:, layer], context.resamples, context.seed)
            low, high = percentile_interval(found.samples) or (None, None)
            if np.isfinite(found.value):
                yield Point(x=layer, y=found.value, low=low, high=high, n=found.n_queries)

    return Curve(
        name="revert_attention_layers",
        title=Text("注意力的变化，按层", "Change of attention by layer"),
        x_label=Text("层", "layer"),
        y_label=Text("变化（该层各头平均）", "change (mean of its heads)"),
        unit=CHANGE,
        series=tuple(
            Series(name=QUANTITY_NAMES[name], points=tuple(points(name))) for name in CLAIMED
        ),
    )


def _by_head(study: Study) -> Iterator[HeatMap]:
    titles: Sequence[Text] = (
        Text(
            "给另一文本中相同的词的注意力的变化（只算两段文本）",
            "Change of attention to the same term in the other text (texts alone)",
        ),
        Text(
            "给相同的词（含自身）的注意力的变化",
            "Change of attention to the same word, itself included",
        ),
    )
    for name, title in zip(CLAIMED, titles, strict=True):
        yield head_map(
            f"revert_{name}",
            title,
            CHANGE,
            means(study.attention.change(name)) / PERCENT,
            marked=study.heads,
            scale="diverging",
            digits=1,
            note=Text("粗框：匹配头。", "Outlined: the matching heads."),
        )
