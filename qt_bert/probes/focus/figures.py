"""The pictures of the study of readers."""

from __future__ import annotations

from collections.abc import Iterable

from qt_bert.figures import Bars, BarSeries, Figure, HeatMap
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.display import ATTENTION, HEAD, cells, head_map, known, resting_on, sample_of
from qt_bert.probes.focus.case import QUERY
from qt_bert.probes.focus.case_tokens import case_tokens
from qt_bert.probes.focus.cls_row import ENTROPY, FOCUS, WEIGHTS
from qt_bert.probes.focus.contests import Outcome
from qt_bert.probes.focus.study import Study
from qt_bert.probes.focus.wires import graph
from qt_bert.probes.focus.words import AFTER, BEFORE, CONTROL, UNIT
from qt_bert.probes.naming import average, means
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Label, Text

PLACE = Text("位置", "place")
PLACES: dict[str, Label] = {
    "query": Text("查询", "query"),
    "title": Text("标题", "title"),
    "matched": Text("共有", "shared"),
    "other": Text("其他", "other"),
    "separator": "[SEP]",
    "itself": "[CLS]",
}


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """Focus of all heads, the layer's heads before and after, the case, the wiring."""
    outcome = study.outcomes.get("zero")
    maps: list[Figure] = [_focus_map(study), _spread_map(study)]
    drawn = list(resting_on(sample_of(study.validation.pairs), maps))
    contested = sample_of(study.contested)
    if outcome is not None:
        drawn += resting_on(contested, _before_and_after(study, outcome, context))
    if study.case is not None:
        drawn.append(case_tokens(study.case, _about(study.chosen.head)))
    return (*drawn, *resting_on(contested, (graph(study),)))


def _focus_map(study: Study) -> HeatMap:
    return head_map(
        "heads",
        Text("每个头的 [CLS] 对共有词的关注度", "Focus of every head's [CLS] on shared terms"),
        UNIT,
        means(study.plain)[..., FOCUS],
        marked=(*study.readers.focused, *study.readers.averted),
        scale="diverging",
        note=Text(
            "验证集；粗框：发现集上选出的头（正负皆有）",
            "Validation; outlined: named on discovery, for either sign",
        ),
    )


def _spread_map(study: Study) -> HeatMap:
    return HeatMap(
        name="spread",
        title=Text(
            f"第 {study.layer} 层 [CLS] 的注意力分到哪里",
            f"Where the attention of layer {study.layer}'s [CLS] goes",
        ),
        x_label=PLACE,
        y_label=HEAD,
        unit=ATTENTION,
        columns=tuple(PLACES.values()),
        rows=tuple(f"L{study.layer}H{head}" for head in range(study.shape.heads)),
        values=cells(means(study.plain)[study.layer, :, : len(WEIGHTS)]),
        low=0.0,
        high=1.0,
        note=Text(
            "查询、标题、[SEP]、[CLS] 之和为 1；两文本之内分为共有的词与其他字，标点不计",
            "Query, title, [SEP] and [CLS] add up to 1; the texts are made of shared terms, other "
            "characters and punctuation",
        ),
    )


def _before_and_after(study: Study, outcome: Outcome, context: Context) -> Iterable[Bars]:
    heads = [f"L{study.layer}H{head}" for head in range(study.shape.heads)]
    yield _bars(
        "before_and_after",
        Text(
            f"第 {study.layer} 层各头的关注度，去掉低层匹配头前后",
            f"Focus of layer {study.layer}'s heads, with and without the matching heads below",
        ),
        UNIT,
        heads,
        _lines(outcome, FOCUS),
        context,
    )
    yield _bars(
        "entropy",
        Text(
            f"第 {study.layer} 层各头的注意力有多分散",
            f"How far the attention of layer {study.layer}'s heads scatters",
        ),
        Text("归一化的熵", "normalised entropy"),
        heads,
        _lines(outcome, ENTROPY),
        context,
    )
    reader = study.chosen.head
    if reader is not None:
        yield _bars(
            "reader_spread",
            Text(f"{reader} 的 [CLS] 看哪里", f"Where the [CLS] of {reader} looks"),
            ATTENTION,
            list(PLACES.values()),
            [(name, rows[:, : len(WEIGHTS)]) for name, rows in _of_head(outcome, reader.head)],
            context,
            PLACE,
        )


def _lines(outcome: Outcome, quantity: int) -> list[tuple[Text, FloatArray]]:
    """Each condition's values [queries, heads]."""
    return [(name, rows[..., quantity]) for name, rows in _conditions(outcome)]


def _of_head(outcome: Outcome, head: int) -> list[tuple[Text, FloatArray]]:
    return [(name, rows[:, head]) for name, rows in _conditions(outcome)]


def _conditions(outcome: Outcome) -> list[tuple[Text, FloatArray]]:
    """Rows [queries, heads, quantities] of the whole model, the target and the mean control."""
    found = [(BEFORE, outcome.rows[:, 0]), (AFTER, outcome.rows[:, 1])]
    matched = len(outcome.contest.matched)
    if matched:
        found.append((CONTROL, outcome.rows[:, 2 : 2 + matched].mean(axis=1)))
    return found


def _bars(
    name: str,
    title: Text,
    unit: Label,
    categories: list[Label] | list[str],
    lines: list[tuple[Text, FloatArray]],
    context: Context,
    across: Label = HEAD,
) -> Bars:
    """One series a line; each column of a line's values [queries, categories] is a bar."""
    series = []
    for label, values in lines:
        found = [average(column, context.resamples, context.seed) for column in values.T]
        series.append(
            BarSeries(
                name=label,
                values=tuple(known(one.value) for one in found),
                intervals=tuple(percentile_interval(one.samples) for one in found),
            )
        )
    return Bars(
        name=name,
        title=title,
        x_label=across,
        y_label=unit,
        unit="",
        categories=tuple(categories),
        series=tuple(series),
    )


def _about(head: Head | None) -> Text:
    return Text(
        f"{head} 的 [CLS] 看每个字多少：{QUERY}",
        f"How much the [CLS] of {head} looks at each character: {QUERY}",
    )
