"""The study of patches as figures; there is none where there is no gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qt_bert.ablation.variant import Variant
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.common.base import resting_on, sample_of
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.common.maps import LAYER, cells, head_map, known
from qt_bert.probes.patched.claims import beyond_controls
from qt_bert.probes.patched.effects import Shares
from qt_bert.probes.patched.scatter import scatter
from qt_bert.probes.patched.study import Seen, Study
from qt_bert.probes.patched.words import (
    BREAKING,
    CLASSES,
    MATCHED,
    MATCHING,
    PATCHED_AT,
    RESTORING,
    SHARE,
)
from qt_bert.results import Bars, Curve, Figure, HeatMap, Text
from qt_bert.results.figures import BarSeries, Point, Series

OUTLINED = Text("粗框：匹配头", "Outlined: the matching heads")
ZERO_AND_ONE = Text(
    "0：与换词后一样；1：补回整个缺口", "0: as with the term replaced; 1: the whole gap"
)


def figures(study: Study) -> tuple[Figure, ...]:
    """The set beside its controls, heads, layers; under --full also classes and leaving out."""
    if not study.seen.gap.known:
        return ()
    one_by_one = _one_by_one(study) if study.each.gap.known else ()
    return (
        *resting_on(_base(study, study.seen), [_set_bars(study)]),
        *resting_on(_base(study, study.each), one_by_one),
    )


def _base(study: Study, seen: Seen) -> Text:
    return study.asked.resting(sample_of([twin.pair for twin in seen.made.twins]))


def _one_by_one(study: Study) -> Iterator[Figure]:
    yield from _head_maps(study)
    yield _layer_curve(study)
    yield from _class_maps(study)
    if study.plan.left_out:
        yield scatter(study)


def _set_bars(study: Study) -> Bars:
    contest = study.plan.contest.variants
    series = [(RESTORING, study.seen.restoring(contest))]
    if study.plan.left_out:
        series.append((BREAKING, study.seen.breaking(contest)))
    if study.masked is not None:
        mask = Text("补回（[MASK] 顶替）", "restored ([MASK] for the term)")
        series.append((mask, study.masked.restoring(contest)))
    return Bars(
        name="patch_set",
        title=Text("匹配头一起换回，补回多少", "What the matching heads restore together"),
        x_label=Text("换回哪些头", "heads put back"),
        y_label=Text("缺口的份额", "share of the gap"),
        unit=SHARE,
        categories=(MATCHING, MATCHED),
        series=tuple(_bar_series(study, name, found) for name, found in series),
        note=ZERO_AND_ONE,
    )


def _bar_series(study: Study, name: Text, found: Shares) -> BarSeries:
    beyond = beyond_controls(study, found)
    both: list[Estimate | None] = [beyond.target, beyond.matched]
    return BarSeries(
        name=name,
        values=tuple(None if one is None else known(one.value) for one in both),
        intervals=tuple(None if one is None else percentile_interval(one.samples) for one in both),
    )


def _head_maps(study: Study) -> Iterator[HeatMap]:
    each, plan = study.each, study.plan
    yield _head_map(
        study,
        "patch_heads",
        Text("单独换回一个头的输出，补回多少缺口", "Restored by each head's output alone"),
        each.restoring(plan.singles),
        ZERO_AND_ONE,
    )
    if plan.left_out:
        yield _head_map(
            study,
            "patch_heads_breaking",
            Text("反方向：单个头破坏多少缺口", "The other way: taken away by each head"),
            each.breaking(plan.singles),
            Text(
                "把换词后的输出放进原文", "Its output without the term, put into the pair as it is"
            ),
        )
        yield _head_map(
            study,
            "patch_heads_left_out",
            Text("去掉一个头，缺口缩小多少", "What of the gap is lost without each head"),
            each.closing(plan.left_out),
            Text("原文与换词后都去掉它", "Left out of both texts"),
        )


def _head_map(study: Study, name: str, title: Text, found: Shares, note: Text) -> HeatMap:
    return head_map(
        name,
        title,
        SHARE,
        study.shape.spread(found.values),
        marked=study.asked.heads,
        scale="diverging",
        note=Text(f"{note.zh}。{OUTLINED.zh}", f"{note.en}. {OUTLINED.en}"),
    )


def _layer_curve(study: Study) -> Curve:
    variants = study.plan.layers
    series = [_series(RESTORING, study.each.restoring(variants), variants)]
    if study.plan.left_out:
        series.append(_series(BREAKING, study.each.breaking(variants), variants, dashed=True))
    return Curve(
        name="patch_layers",
        title=Text("换回整层的头，补回多少缺口", "Restored by all heads of a layer together"),
        x_label=LAYER,
        y_label=Text("缺口的份额", "share of the gap"),
        unit=SHARE,
        series=tuple(series),
        note=ZERO_AND_ONE,
    )


def _series(
    name: Text, found: Shares, variants: Sequence[Variant], *, dashed: bool = False
) -> Series:
    points = []
    ends = found.intervals()
    for variant, value, one in zip(variants, found.values, ends, strict=True):
        low, high = one or (None, None)
        points.append(Point(x=float(variant.heads[0].layer), y=float(value), low=low, high=high))
    return Series(name=name, points=tuple(points), dashed=dashed)


def _class_maps(study: Study) -> Iterator[HeatMap]:
    """Layers by token classes: what heads write there, and what the residual stream holds there."""
    if study.plan.classes:
        yield _class_map(
            "patch_classes",
            Text("只在一类词元上换回整层的头", "All heads of a layer, at one class of tokens"),
            [f"L{row[0].heads[0].layer}" for row in study.plan.classes],
            _rows(study, study.plan.classes),
            Text(
                "最上一层只读 [CLS]，其他词元为 0",
                "Of the last layer [CLS] alone is read, so that other tokens give 0",
            ),
        )
    if study.plan.states:
        yield _class_map(
            "patch_states",
            Text("只在一类词元上换回整个向量", "The whole vectors of one class of tokens"),
            [f"r{place}" for place in range(len(study.plan.states))],
            _rows(study, study.plan.states),
            Text(
                "匹配的信息在哪一层、在哪些词元上：r0 是嵌入，rn 是第 n 层之前的向量",
                "Where the match is held, layer by layer: r0 are the embeddings, rn what layer n "
                "reads",
            ),
        )


def _rows(study: Study, variants: Sequence[Sequence[Variant]]) -> list[Shares]:
    return [study.each.restoring(row) for row in variants]


def _class_map(
    name: str, title: Text, rows: Sequence[str], found: Sequence[Shares], note: Text
) -> HeatMap:
    return HeatMap(
        name=name,
        title=title,
        x_label=PATCHED_AT,
        y_label=LAYER,
        unit=SHARE,
        columns=tuple(CLASSES.values()),
        rows=tuple(rows),
        values=cells(np.stack([row.values for row in found])),
        scale="diverging",
        note=Text(f"{ZERO_AND_ONE.zh}。{note.zh}", f"{ZERO_AND_ONE.en}. {note.en}"),
    )
