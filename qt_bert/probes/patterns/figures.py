"""What the probe draws: shares of the kinds, by layer and by head; how sure the labels are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qt_bert.figures import Bars, BarSeries, Figure, HeatMap
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.display import LAYER, cells, head_map, resting_on, sample_of
from qt_bert.probes.naming import average
from qt_bert.probes.patterns.agreement import agreement
from qt_bert.probes.patterns.examples import examples
from qt_bert.probes.patterns.kinds import KINDS
from qt_bert.probes.patterns.study import SEEN, Shares, Study
from qt_bert.probes.patterns.words import (
    AFTER,
    BEFORE,
    KIND,
    LETTERS,
    MODEL,
    POINTS,
    SEEN_NAMES,
    SHARE,
)
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """Shares over all heads, by layer and by head, then the figures of the labels themselves."""
    measured: list[Figure] = [_overall(study, context), *_by_layer(study), *_by_head(study)]
    return (
        *resting_on(sample_of(study.pairs), measured),
        *agreement(study.classifier),
        *examples(study.classifier),
    )


def _models(study: Study) -> list[tuple[str, Text, Shares]]:
    """What there is, in time's order: a name for figures, words, shares."""
    if study.before is None:
        return [("after", MODEL, study.after)]
    return [("before", BEFORE, study.before), ("after", AFTER, study.after)]


def _overall(study: Study, context: Context) -> Bars:
    return Bars(
        name="shares",
        title=Text("全部头的图各是哪一类", "Which kind the maps of all heads are"),
        x_label=KIND,
        y_label=SHARE,
        unit=SHARE,
        categories=tuple(SEEN_NAMES[name] for name in SEEN),
        series=tuple(_series(words, shares, context) for _, words, shares in _models(study)),
        digits=1,
        note=Text(
            "一张图：一个头在一对文本上的注意力。“块：看全文”是块的一部分。区间只含查询的抽样，不含分类器的错误"
            "（见“按分类器的错误校正后”）。",
            "A map: one head's attention on one pair. “block: whole” is part of the blocks. Intervals "
            "hold the chance of the queries, not the classifier's errors (see “Corrected for the "
            "classifier's errors”).",
        ),
    )


def _series(name: Text, shares: Shares, context: Context) -> BarSeries:
    found = [average(one, context.resamples, context.seed) for one in 100 * shares.of_all.T]
    return BarSeries(
        name=name,
        values=tuple(one.value for one in found),
        intervals=tuple(percentile_interval(one.samples) for one in found),
    )


def _by_layer(study: Study) -> Iterator[HeatMap]:
    for name, words, shares in _models(study):
        table = np.stack([shares.of_layers(kind) for kind in SEEN], axis=1)
        yield HeatMap(
            name=f"layers_{name}",
            title=Text(f"每层的图各是哪一类，{words.zh}", f"Kinds by layer, {words.en}"),
            x_label=KIND,
            y_label=LAYER,
            unit=SHARE,
            columns=tuple(SEEN_NAMES[kind] for kind in SEEN),
            rows=tuple(f"L{layer}" for layer in range(len(table))),
            values=cells(100 * table),
            low=0.0,
            high=100.0,
            digits=0,
        )


def _by_head(study: Study) -> Iterator[HeatMap]:
    vertical = 100 * study.after.of_head("vertical")
    if study.before is not None:
        yield head_map(
            "vertical_change",
            Text("竖线图份额的变化", "Change of the share of vertical maps"),
            POINTS,
            vertical - 100 * study.before.of_head("vertical"),
            scale="diverging",
            digits=0,
        )
    kinds = commonest(study.after)
    shares = np.full(vertical.shape, np.nan)
    letters = np.full(vertical.shape, "", dtype=object)
    for head, kind in kinds.items():
        shares[head] = 100 * study.after.of_head(kind)[head]
        letters[head] = LETTERS[kind]
    key = "、".join(f"{LETTERS[kind]} {SEEN_NAMES[kind].zh}" for kind in KINDS)
    key_en = ", ".join(f"{LETTERS[kind]} {SEEN_NAMES[kind].en}" for kind in KINDS)
    yield head_map(
        "commonest",
        Text("每个头最常见的一类，及其份额", "Each head's commonest kind, and its share"),
        SHARE,
        shares,
        annotations=tuple(tuple(map(str, row)) for row in letters),
        low=0.0,
        high=100.0,
        digits=0,
        note=Text(f"{key}。", f"{key_en}."),
    )


def commonest(shares: Shares) -> dict[Head, str]:
    """The kind that most maps of each head are; of equals the first of KINDS."""
    table: FloatArray = np.stack([shares.of_head(kind) for kind in KINDS])
    heads: Sequence[Head] = shares.heads
    return {head: KINDS[int(table[:, head.layer, head.head].argmax())] for head in heads}
