"""Bars: the loss by grade and overlap, the low half with the matching heads alone, the cut."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.claims import POINTS
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.common.maps import known
from qt_bert.probes.term_matching.changes import Changes
from qt_bert.probes.term_matching.keeping import kept_share
from qt_bert.probes.term_matching.slices import Slice
from qt_bert.probes.term_matching.study import Contests
from qt_bert.probes.term_matching.words import MATCHED, MATCHING, change_of
from qt_bert.results import Bars, Text
from qt_bert.results.figures import BarSeries

OVERLAP_NAMES = {
    "low": Text("低（< 1/3）", "low (< 1/3)"),
    "mid": Text("中", "middle"),
    "high": Text("高（≥ 2/3）", "high (≥ 2/3)"),
}


def grade_bars(slices: Sequence[Slice], changes: Changes) -> Bars:
    return _slice_bars(
        "matching_by_grade",
        Text("按档位：去掉匹配头", "By grade: matching heads left out"),
        Text("档位", "grade"),
        slices,
        [one.name for one in slices],
        changes,
    )


def overlap_bars(slices: Sequence[Slice], changes: Changes) -> Bars:
    return _slice_bars(
        "matching_by_overlap",
        Text("按重合程度：去掉匹配头", "By overlap: matching heads left out"),
        Text("query 的字在 title 中出现的比例", "share of the query's characters in the title"),
        slices,
        [OVERLAP_NAMES[one.name] for one in slices],
        changes,
    )


def _slice_bars(
    name: str,
    title: Text,
    x_label: Text,
    slices: Sequence[Slice],
    categories: Sequence[str | Text],
    changes: Changes,
) -> Bars:
    sizes = "、".join(str(one.n_pairs) for one in slices)
    return Bars(
        name=name,
        title=title,
        x_label=x_label,
        y_label=change_of(changes.metric),
        unit=POINTS,
        categories=tuple(categories),
        series=(
            BarSeries(
                name=MATCHING,
                values=tuple(one.change for one in slices),
                intervals=tuple(one.interval for one in slices),
            ),
            BarSeries(name=MATCHED, values=tuple(one.controls for one in slices)),
        ),
        digits=1,
        note=Text(f"对数：{sizes}", f"Pairs: {sizes.replace('、', ', ')}"),
    )


def kept_bars(contests: Contests, changes: Changes) -> Bars:
    assert contests.kept is not None and contests.low_off is not None
    left = [
        (Text("匹配头", "matching heads"), changes.of(contests.kept.target)),
        (
            Text("同层随机的头（平均）", "layer-matched heads (mean)"),
            changes.mean(contests.kept.matched),
        ),
        (Text("无", "none"), changes.of(contests.low_off)),
    ]
    bars = [(label, kept_share(change, changes)) for label, change in left if change is not None]
    return _plain_bars(
        "matching_kept",
        Text("低半层只留匹配头", "Matching heads alone in the low half"),
        Text("低半层中留下的头", "heads kept in the low half"),
        Text("完整模型的百分比", "share of the whole model's"),
        "%",
        bars,
    )


def cut_bars(contests: Contests, changes: Changes) -> Bars:
    cut = contests.cut
    bars = [
        (Text("隔断：所有的头", "cut: every head"), changes.of(contests.cut_all)),
        (Text("隔断：匹配头", "cut: matching heads"), changes.of(cut.target)),
        (
            Text("隔断：同层随机的头（平均）", "cut: layer-matched heads (mean)"),
            changes.mean(cut.matched),
        ),
        (Text("去掉：匹配头", "left out: matching heads"), changes.of(contests.out.target)),
    ]
    return _plain_bars(
        "matching_cut",
        Text("隔断 query 与 title", "Query and title cut apart"),
        Text("做法与头", "what is done, to which heads"),
        change_of(changes.metric),
        POINTS,
        bars,
    )


def _plain_bars(
    name: str,
    title: Text,
    x_label: Text,
    y_label: Text,
    unit: str | Text,
    bars: Sequence[tuple[Text, Estimate | None]],
) -> Bars:
    there = [(label, value) for label, value in bars if value is not None]
    return Bars(
        name=name,
        title=title,
        x_label=x_label,
        y_label=y_label,
        unit=unit,
        categories=tuple(label for label, _ in there),
        series=(
            BarSeries(
                name=y_label,
                values=tuple(known(value.value) for _, value in there),
                intervals=tuple(percentile_interval(value.samples) for _, value in there),
            ),
        ),
        digits=1,
    )
