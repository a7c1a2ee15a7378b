"""The pictures of the page on [CLS]: one head's row, all rows of a layer, the grades."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.inspection.views.cls_rows import ClsRows, Grades, Spread
from qt_bert.inspection.views.phrases import AFTER, BEFORE, CHANGE, RANDOM
from qt_bert.inspection.views.quantities import PERCENT
from qt_bert.inspection.views.units import level_name
from qt_bert.probes.common.maps import ATTENTION, HEAD, cells
from qt_bert.probes.readers.case_tokens import change_tokens, row_tokens
from qt_bert.results import Bars, HeatMap, Text, Tokens
from qt_bert.results.figures import BarSeries
from qt_bert.scoring.outputs import Outputs

TOKEN = Text("字", "token")
MOST_BARS = 40
"""Tokens that the bars show at most; of more, those that are looked at most."""


def cls_tokens(rows: ClsRows, head: Head) -> Tokens:
    """One head's row on the tokens: the whole model, without the heads, without random ones."""
    title = Text(
        f"{head} 的 [CLS] 看每个字多少", f"How much the [CLS] of {head} looks at each token"
    )
    return row_tokens("cls_tokens", title, rows.tokens, rows.matched, _lines(rows, head))


def cls_change(rows: ClsRows, head: Head) -> Tokens | None:
    """After less before on the tokens; None without heads left out."""
    if rows.after is None:
        return None
    title = Text(
        f"去掉所选的头之后，{head} 的 [CLS] 多看（正）少看（负）哪些字",
        f"What the [CLS] of {head} looks at more (above 0) and less without the chosen heads",
    )
    change = (rows.after - rows.before)[head].astype(np.float64)
    return change_tokens("cls_change", title, rows.tokens, rows.matched, (CHANGE, change))


def cls_bars(rows: ClsRows, head: Head) -> Bars:
    """One head's row as bars, a token each: before and after, and the random mean."""
    lines = _lines(rows, head)
    shown = _looked_at_most([weights for _, weights in lines[:2]], MOST_BARS)
    cut = len(shown) < len(rows.tokens)
    return Bars(
        name="cls_bars",
        title=Text(f"{head} 的 [CLS] 的注意力", f"Attention of the [CLS] of {head}"),
        x_label=TOKEN,
        y_label=ATTENTION,
        unit="",
        categories=tuple(rows.tokens[place] for place in shown),
        series=tuple(
            BarSeries(name=name, values=tuple(float(weights[place]) for place in shown))
            for name, weights in lines
        ),
        digits=3,
        note=_cut_note(len(shown), len(rows.tokens)) if cut else None,
    )


def layer_maps(rows: ClsRows, chosen: Head) -> dict[str, HeatMap]:
    """The [CLS] rows of the chosen head's layer: `before`, and with heads left out `after`, `change`."""
    before = rows.before[chosen.layer]
    if rows.after is None:
        return {"before": _layer_map(rows, chosen, "before", BEFORE, before, high=_top(before))}
    after = rows.after[chosen.layer]
    top = _top(before, after)
    return {
        "before": _layer_map(rows, chosen, "before", BEFORE, before, high=top),
        "after": _layer_map(rows, chosen, "after", AFTER, after, high=top),
        "change": _layer_map(rows, chosen, "change", CHANGE, after - before),
    }


def grade_bars(grades: Grades) -> Bars | None:
    """The probabilities of the grades, before, after and random; None for a model of one logit."""
    before, after, random = grades.before, grades.after, grades.random
    if before.probabilities is None:
        return None
    series = [_grade_series(BEFORE, before)]
    if after is not None:
        series.append(_grade_series(AFTER, after))
    if random is not None and random.probabilities is not None:
        spread = Spread.of(PERCENT * random.probabilities.astype(np.float64))
        ends = zip(spread.low.tolist(), spread.high.tolist(), strict=True)
        series.append(
            BarSeries(name=RANDOM, values=tuple(spread.mean.tolist()), intervals=tuple(ends))
        )
    what = level_name(before.labels)
    return Bars(
        name="grades",
        title=Text(f"各{what.zh}的概率", f"Probability of each {what.en}"),
        x_label=what,
        y_label=Text("概率", "probability"),
        unit="%",
        categories=tuple(
            Text(f"{name} 档" if before.labels.exact else f"{what.zh} {name}", f"{what.en} {name}")
            for name in before.labels.names
        ),
        series=tuple(series),
        digits=1,
        note=None
        if random is None
        else Text(
            "线段：各次随机抽取中最小与最大的值，不是置信区间",
            "Whiskers: least and largest over the random draws, no confidence interval",
        ),
    )


def _lines(rows: ClsRows, head: Head) -> list[tuple[Text, FloatArray]]:
    ways = ((BEFORE, rows.before), (AFTER, rows.after), (RANDOM, rows.control))
    return [(way, found[head].astype(np.float64)) for way, found in ways if found is not None]


def _grade_series(name: Text, outputs: Outputs) -> BarSeries:
    assert outputs.probabilities is not None
    return BarSeries(name=name, values=tuple((PERCENT * outputs.probabilities[0]).tolist()))


def _layer_map(
    rows: ClsRows,
    chosen: Head,
    name: str,
    what: Text,
    values: np.ndarray,
    high: float | None = None,
) -> HeatMap:
    """One row a head, the chosen one pointed at; changes where there is no `high`."""
    heads = [Head(chosen.layer, head) for head in range(len(values))]
    return HeatMap(
        name=f"cls_layer_{name}",
        title=Text(
            f"第 {chosen.layer} 层每个头的 [CLS] 看哪里：{what.zh}",
            f"Where the [CLS] of layer {chosen.layer}'s heads looks: {what.en}",
        ),
        x_label=TOKEN,
        y_label=HEAD,
        unit=ATTENTION,
        columns=rows.tokens,
        rows=tuple(f"▶ {head}" if head == chosen else str(head) for head in heads),
        values=cells(values.astype(np.float64)),
        scale="sequential" if high is not None else "diverging",
        low=None if high is None else 0.0,
        high=high,
    )


def _top(*maps: np.ndarray) -> float:
    return max(float(one.max()) for one in maps)


def _looked_at_most(lines: Sequence[FloatArray], most: int) -> list[int]:
    """The places of the largest weights in any of the lines, in text order."""
    largest = np.max(lines, axis=0)
    return sorted(np.argsort(-largest, kind="stable")[:most].tolist())


def _cut_note(shown: int, total: int) -> Text:
    return Text(
        f"共 {total} 个词元，只画权重最大的 {shown} 个，仍按原来的次序",
        f"The {shown} of {total} tokens that are looked at most, in text order",
    )
