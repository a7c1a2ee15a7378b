"""The pictures of the matching heads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.claims import POINTS
from qt_bert.probes.common.base import resting_on, sample, sample_of
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.common.maps import head_map, known
from qt_bert.probes.term_matching.bars import cut_bars, grade_bars, kept_bars, overlap_bars
from qt_bert.probes.term_matching.cells import KINDS
from qt_bert.probes.term_matching.changes import Changes
from qt_bert.probes.term_matching.head_scores import LEAST_QUERIES, Scores
from qt_bert.probes.term_matching.slices import by_grade, by_overlap
from qt_bert.probes.term_matching.study import Contests, Study
from qt_bert.probes.term_matching.sums import SINK_FREE_KIND
from qt_bert.probes.term_matching.words import (
    FREE,
    KIND_NAMES,
    MATCHED,
    MATCHING,
    change_of,
)
from qt_bert.results import Bars, Curve, Figure, HeatMap, Text
from qt_bert.results.figures import BarSeries, Point, Series

SHOWN_KINDS = {name: kind for kind, name in enumerate(KINDS) if name != "diagonal"} | {
    "sink_free": SINK_FREE_KIND
}
"""What the bars and the table of heads show; of the diagonal they show a share."""


def figures(study: Study) -> tuple[Figure, ...]:
    """Scores of all heads and by kind; then, where heads were left out, what that did."""
    seen = study.validation.sample
    found: list[Figure] = [*resting_on(sample(seen.used, seen.queries), (_score_map(study),))]
    if study.chosen:
        found.append(_kind_bars(study))
    return (*found, *resting_on(sample_of(study.pairs), _left_out(study)))


def _left_out(study: Study) -> Iterator[Figure]:
    contests, changes = study.contests, study.changes
    if contests is None or changes is None:
        return
    out = contests.out
    yield _curve(contests, changes)
    yield grade_bars(by_grade(changes, out.target, out.matched), changes)
    yield overlap_bars(by_overlap(changes, out.target, out.matched), changes)
    if contests.kept is not None and contests.low_off is not None:
        yield kept_bars(contests, changes)
    yield cut_bars(contests, changes)


def _score_map(study: Study) -> HeatMap:
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log2(study.score)
    return head_map(
        "matching_scores",
        Text("每个头的匹配分数", "Matching score of every head"),
        Text("log₂ 倍数", "log₂ ratio"),
        values,
        marked=study.discovery.named(),
        scale="diverging",
        digits=1,
        note=Text(
            "0：与换成无关的 query 时一样；1：两倍。验证集上的值，方向取发现集上较强的；粗框：发现集上 "
            "q < 0.05 且不低于 2 倍",
            "0: as with an unrelated query; 1: twice that. On validation, in the direction that is "
            "stronger on discovery; outlined: q < 0.05 and at least twice on discovery",
        ),
    )


def _kind_bars(study: Study) -> Bars:
    scores = study.validation

    def of(head: Head) -> tuple[float | None, ...]:
        direction = study.discovery.direction[head]
        found = [scores.firm_ratio(kind)[(*head, direction)] for kind in SHOWN_KINDS.values()]
        return tuple(known(float(np.log2(value))) for value in found)

    return Bars(
        name="matching_kinds",
        title=Text("匹配头对什么有反应", "What the matching heads respond to"),
        x_label=Text("对应的内容", "what is matched"),
        y_label=Text("匹配分数", "matching score"),
        unit=Text("log₂ 倍数", "log₂ ratio"),
        categories=tuple(KIND_NAMES[name] for name in SHOWN_KINDS),
        series=tuple(BarSeries(name=str(head), values=of(head)) for head in study.chosen),
        digits=1,
        note=_kind_note(scores),
    )


def _kind_note(scores: Scores) -> Text:
    """How many queries each kind rests on, in either direction."""
    zh, en = [], []
    for name, kind in SHOWN_KINDS.items():
        to_query, to_title = scores.queries(kind)
        zh.append(f"{KIND_NAMES[name].zh} {to_query}/{to_title}")
        en.append(f"{KIND_NAMES[name].en} {to_query}/{to_title}")
    return Text(
        f"验证集，方向为发现集上较强的方向。各项的 query 数（title 看 query / query 看 title）："
        f"{'、'.join(zh)}；少于 {LEAST_QUERIES} 个不画。",
        "Validation, in the direction that is stronger on discovery. Queries of each "
        f"(title → query / query → title): {', '.join(en)}; not drawn under {LEAST_QUERIES}.",
    )


def _curve(contests: Contests, changes: Changes) -> Curve:
    def series(name: Text, values: dict[int, Estimate | None], *, dashed: bool) -> Series:
        points = [_point(k, value) for k, value in values.items() if value is not None]
        return Series(name=name, points=(Point(x=0.0, y=0.0), *points), dashed=dashed)

    curve = contests.curve
    return Curve(
        name="matching_curve",
        title=Text("去掉最强的 k 个匹配头", "The k best matching heads left out"),
        x_label=Text("去掉的头数", "heads left out"),
        y_label=change_of(changes.metric),
        unit=POINTS,
        series=(
            series(
                MATCHING,
                {k: changes.of(one.target) for k, one in curve.items()},
                dashed=False,
            ),
            series(
                MATCHED, {k: changes.mean(one.matched) for k, one in curve.items()}, dashed=True
            ),
            series(FREE, {k: changes.mean(one.free) for k, one in curve.items()}, dashed=True),
        ),
    )


def _point(k: int, value: Estimate) -> Point:
    low, high = percentile_interval(value.samples) or (None, None)
    return Point(x=float(k), y=value.value, low=low, high=high)
