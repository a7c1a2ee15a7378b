"""The pictures of the study of word order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.figures import Bars, BarSeries, Curve, Figure, HeatMap, Point, Series
from qt_bert.models.card import ModelLabels
from qt_bert.probes.display import head_map, resting_on, sample
from qt_bert.probes.order.changes import GRADES
from qt_bert.probes.order.disturbed import ORIGINAL, Disturbed, Way
from qt_bert.probes.order.grades import expected_grades, probabilities
from qt_bert.probes.order.study import CASE_QUERY, CASE_TITLE, Study
from qt_bert.probes.order.texts import KINDS, SIDES
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Label, Text

GRADE, LABEL = Text("模型的档位", "model's grade"), Text("标注", "label")
CHANGE = Text("期望等级的变化", "change of the expected grade")
SHARE, SCORE = Text("概率", "probability"), Text("分数", "score")
AS_IT_WAS = Text("原样", "as it was")
CASE = f"{CASE_QUERY} / {CASE_TITLE}"


def figures(study: Study) -> tuple[Figure, ...]:
    """Heat maps of scores, bars of disturbed texts and of the case, the curve over k."""
    sides = [side for side in SIDES if study.disturbed.groups]
    scores = study.validation
    return (
        *resting_on(
            sample(scores.pairs, scores.n_queries), (_score_map(study), _identity_map(study))
        ),
        *resting_on(sample(len(study.pairs), study.sensitivity.n_queries), (_curve(study),)),
        _case(study),
        *(_disturbed(study.disturbed, side) for side in sides),
        *(_grades(study, side) for side in sides if study.labels.logits > 1),
    )


def _score_map(study: Study) -> HeatMap:
    named = study.discovery.named().named
    return head_map(
        "order_scores",
        Text(
            "语序分：字被打乱后，最大的邻位倍数", "Order score: the largest lift on shuffled text"
        ),
        Text("倍", "times another character's"),
        study.validation.score,
        marked=[head for head in study.shape.all_heads if named[head]],
        scale="sequential",
        note=Text(
            "验证集；粗框：在发现集上被命名的头（倍数 ≥ 2，q < 0.05）",
            "Validation; outlined: heads named on discovery (lift ≥ 2, q < 0.05)",
        ),
    )


def _identity_map(study: Study) -> HeatMap:
    return head_map(
        "order_identity",
        Text(
            "身份指数：注意力跟着字走还是跟着位置走",
            "Identity index: does a map follow its characters?",
        ),
        Text("相关系数之差", "difference of correlations"),
        study.validation.identity,
        marked=study.order_heads,
        scale="diverging",
        note=Text(
            "大于 0 跟着字走，小于 0 跟着位置走；粗框：语序头",
            "Above 0 it follows the characters, below 0 their places; outlined: the order heads",
        ),
    )


def _curve(study: Study) -> Curve:
    """S / R over k: the order heads, and the mean of each kind of random sets."""
    curve = study.masks.curve
    lines: list[tuple[Label, Mapping[int, Sequence[Variant]]]] = [
        (Text("语序头", "order heads"), {k: [one.target] for k, one in curve.items()}),
        (Text("同层随机头", "random, same layers"), {k: one.matched for k, one in curve.items()}),
        (
            Text("随机头", "random, any layer"),
            {k: one.free for k, one in curve.items() if one.free},
        ),
    ]
    return Curve(
        name="order_curve",
        title=Text("去掉 k 个头后的语序敏感度", "Order sensitivity without k heads"),
        x_label=Text("去掉的头数 k", "heads left out, k"),
        y_label=Text("S/R", "S/R"),
        unit="",
        series=tuple(
            Series(name=name, points=_points(study, at), dashed=number > 0)
            for number, (name, at) in enumerate(lines)
        ),
        note=Text(
            "S：打乱标题的字使期望等级下降多少；R：高档与低档之差",
            "S: what shuffling a title's characters costs; R: from high to low grades",
        ),
    )


def _points(study: Study, at: Mapping[int, Sequence[Variant]]) -> tuple[Point, ...]:
    """The plain model at 0, then the mean S / R over each k's variants that have one."""
    found = []
    for k, rows in {0: [0], **{k: study.rows(some) for k, some in at.items()}}.items():
        values = study.sensitivity.values("ratio", rows)
        known = [row for row, value in zip(rows, values, strict=True) if np.isfinite(value)]
        if not known:
            continue
        samples = study.sensitivity.resampled("ratio", known).mean(axis=0)
        low, high = percentile_interval(samples) or (None, None)
        found.append(Point(x=k, y=float(np.nanmean(values)), low=low, high=high, n=len(known)))
    return tuple(found)


def _case(study: Study) -> Bars:
    """The article's pair: what the model gives, straight, shuffled, and shuffled without heads."""
    labels, claim = study.labels, study.masks.claim
    shown: list[tuple[Text, list[int], int]] = [
        (Text("原标题", "straight"), [0], 0),
        (Text("打乱", "shuffled"), [0], 1),
    ]
    if claim is not None:
        heads = Text("打乱，去掉语序头", "shuffled, order heads out")
        shown.append((heads, study.rows([claim.target]), 1))
        if claim.free:
            random = Text("打乱，去掉随机头（平均）", "shuffled, random heads out (mean)")
            shown.append((random, study.rows(claim.free), 1))
    return grade_bars(
        "order_case",
        Text(f"文章的例子：{CASE}", f"The article's case: {CASE}"),
        labels,
        [BarSeries(name=name, values=case_values(study, rows, text)) for name, rows, text in shown],
        Text(
            "文章：原标题 4 档，打乱后 2 档，去掉 7 个语序头 3 档，去掉 7 个随机头 2 档",
            "Article: straight 4, shuffled 2, without 7 order heads 3, without 7 random heads 2",
        ),
    )


def grade_bars(
    name: str, title: Text, labels: ModelLabels, series: Iterable[BarSeries], note: Text
) -> Bars:
    """What the model gives in several states: a bar a grade, or one for the score of one logit."""
    return Bars(
        name=name,
        title=title,
        x_label=GRADE,
        y_label=SHARE if labels.logits > 1 else SCORE,
        unit="",
        categories=tuple(labels.names) if labels.logits > 1 else (SCORE,),
        series=tuple(series),
        note=note,
    )


def case_values(study: Study, rows: Sequence[int], text: int) -> tuple[float, ...]:
    """Mean probabilities (of a one-logit model the mean score) of one of the case's two texts."""
    return tuple(shares(study.case[list(rows), text], study.labels).mean(axis=0).tolist())


def shares(logits: np.ndarray, labels: ModelLabels) -> FloatArray:
    """What `grade_bars` draws of logits [n, K]: probabilities [n, K], or scores [n, 1]."""
    found = probabilities(logits, labels)
    return expected_grades(logits, labels)[:, None] if found is None else found


def _disturbed(found: Disturbed, side: str) -> Bars:
    """How far each way moves the grade of the pairs it can be done to."""
    ways = {(side, kind): name for kind, name in KINDS.items()}
    names = [name.zh for name in ways.values()], [name.en for name in ways.values()]
    listed = [_as_they_were(found, number, ways) for number in range(len(found.groups))]
    return Bars(
        name=f"order_{side}",
        title=Text(
            f"{SIDES[side].zh}乱序后期望等级的变化",
            f"Change of the expected grade: {SIDES[side].en} disturbed",
        ),
        x_label=LABEL,
        y_label=CHANGE,
        unit=GRADES,
        categories=found.groups,
        series=tuple(
            BarSeries(
                name=name,
                values=tuple(cell.change for cell in found.cells[way]),
                intervals=tuple(cell.interval for cell in found.cells[way]),
            )
            for way, name in ways.items()
        ),
        note=Text(
            "乱序后的期望等级，减去同样这些对原样时的期望等级，附 95% 区间。全部对原样时的期望等级，及各方式的"
            f"对数（{'/'.join(names[0])}）：{'；'.join(one.zh for one in listed)}",
            "Expected grade after, less that of the same pairs as they were, with 95 % intervals. All "
            f"pairs as they were, and pairs by way ({'/'.join(names[1])}): "
            f"{'; '.join(one.en for one in listed)}",
        ),
    )


def _as_they_were(found: Disturbed, number: int, ways: Iterable[Way]) -> Text:
    """A group, its grade before anything was disturbed, and how many pairs each way has of it."""
    group, original = found.groups[number], found.cells[ORIGINAL][number]
    counts = [str(found.cells[way][number].pairs) for way in ways]
    grade = "–" if original.expected is None else f"{original.expected:.2f}"
    name = _both(group)
    return Text(
        f"{name.zh}：{grade}，{'/'.join(counts)}", f"{name.en}: {grade}, {'/'.join(counts)}"
    )


def _grades(study: Study, side: str) -> HeatMap:
    """Label and way by the model's grades: mean probabilities."""
    found = study.disturbed
    ways = {ORIGINAL: AS_IT_WAS} | {(side, kind): name for kind, name in KINDS.items()}
    rows: list[Text] = []
    values: list[tuple[float | None, ...]] = []
    for number, group in enumerate(found.groups):
        for way, name in ways.items():
            cell = found.cells[way][number]
            rows.append(_row(group, name, cell.pairs))
            values.append(cell.probabilities or (None,) * study.labels.logits)
    return HeatMap(
        name=f"order_{side}_grades",
        title=Text(
            f"{SIDES[side].zh}乱序前后的档位分布", f"Grades before and after: {SIDES[side].en}"
        ),
        x_label=GRADE,
        y_label=Text("标注 · 方式（对数）", "label · way (pairs)"),
        unit=SHARE,
        columns=tuple(study.labels.names),
        rows=tuple(rows),
        values=tuple(values),
        low=0.0,
        high=1.0,
    )


def _row(group: Label, way: Text, pairs: int) -> Text:
    name = _both(group)
    return Text(f"{name.zh} · {way.zh}（{pairs}）", f"{name.en} · {way.en} ({pairs})")


def _both(label: Label) -> Text:
    return Text(label, label) if isinstance(label, str) else label
