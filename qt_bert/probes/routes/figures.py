"""The pictures of the study of routes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from qt_bert.ablation.patches import Entry
from qt_bert.figures import Bars, BarSeries, Figure, HeatMap
from qt_bert.probes.display import HEAD, known, resting_on, sample_of
from qt_bert.probes.naming import Estimate
from qt_bert.probes.routes.graphs import graph
from qt_bert.probes.routes.passes import Outcome
from qt_bert.probes.routes.shares import Shares
from qt_bert.probes.routes.study import Study
from qt_bert.probes.routes.words import (
    CONTROLS,
    ENTRY_NAMES,
    FOCUS,
    GRADE_ENTRIES,
    OTHERWISE,
    ROW_ENTRIES,
    SHARE_OF_OWN,
    SHARE_OF_SET,
    THE_SET,
)
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Label, Text, joined

_ENTRY = Text("入口", "entry")
_SENDER = Text("去掉的头", "heads left out")


def figures(study: Study, grade: Text, sign: str) -> tuple[Figure, ...]:
    """Graphs and shares of both outcomes; what is not told from 0 is not drawn.

    `grade` is what the second outcome is called, `sign` the same as the name of a node.
    """
    drawn = [one for one in _figures(study, grade, sign) if one is not None]
    for said in reversed(study.asked.notes):
        drawn = [_with_note(one, said) for one in drawn]
    return tuple(resting_on(sample_of(study.asked.pairs), drawn))


def _figures(study: Study, grade: Text, sign: str) -> Iterator[Figure | None]:
    reader = study.asked.reader
    called: list[tuple[Outcome, Text, str]] = [
        ("focus", Text(f"{reader} 的关注度", f"focus of {reader}"), f"{reader} [CLS]"),
        ("grade", grade, sign),
    ]
    for outcome, what, node in called:
        title = Text(f"匹配头到{what.zh}的路径", f"Routes from the matching heads to the {what.en}")
        yield graph(study, outcome, node, title)
        yield _by_entry(study, outcome, what)
    if study.layer is not None:
        for outcome, what, _ in called:
            yield _by_sender(study, study.layer, outcome, what)
        yield _receivers(study, study.layer, "grade", grade)
        yield _receivers(study, study.layer, "focus", FOCUS)
        yield _otherwise(study, grade)


def entries_of(outcome: Outcome) -> tuple[Entry, ...]:
    """The entries that can move an outcome."""
    return ROW_ENTRIES if outcome == "focus" else GRADE_ENTRIES


def _by_entry(study: Study, outcome: Outcome, what: Text) -> Bars | None:
    shares, entries = study.reader, entries_of(outcome)
    if not shares.told(outcome):
        return None
    series = [_series(THE_SET, [shares.share(outcome, entry) for entry in entries])]
    if study.draws:
        series.append(_series(CONTROLS, [shares.controls(outcome, entry) for entry in entries]))
    return _bars(
        f"shares_{outcome}",
        Text(
            f"{what.zh}的变化，直接经各入口到达的份额",
            f"Change of the {what.en}: what arrives directly, by entry",
        ),
        SHARE_OF_SET,
        _ENTRY,
        [ENTRY_NAMES[entry] for entry in entries],
        series,
        Text(
            "分母都是去掉匹配头整组时的变化；q + k 不必等于两者之和，也可能超过 1：经由别的头的部分会抵消一些",
            "All are of what leaving the whole set out changes; q + k need not be their sum, and may "
            "exceed 1 where what travels through other heads takes some of it back",
        ),
    )


def _by_sender(study: Study, shares: Shares, outcome: Outcome, what: Text) -> Bars:
    heads = study.asked.senders.heads
    places = [*range(1, 1 + len(heads)), 0]
    return _bars(
        f"senders_{outcome}",
        Text(
            f"{what.zh}的变化，逐个匹配头：直接到达的份额",
            f"Change of the {what.en}, by matching head: what arrives directly",
        ),
        SHARE_OF_OWN,
        _SENDER,
        [*map(str, heads), THE_SET],
        [
            _series(ENTRY_NAMES[entry], [shares.share(outcome, entry, place) for place in places])
            for entry in entries_of(outcome)
        ],
        Text("自己的变化区间含 0 的不画", "A head whose own change may be 0 has no share"),
    )


def _receivers(study: Study, shares: Shares, outcome: Outcome, what: Text) -> HeatMap:
    heads, entries = study.asked.receivers, entries_of(outcome)
    places = sorted(range(len(heads)), key=lambda place: heads[place])
    return HeatMap(
        name=f"receivers_{outcome}",
        title=Text(
            f"{what.zh}的变化，直接进入该层各个头的份额",
            f"Change of the {what.en}: what enters each head of the layer directly",
        ),
        x_label=_ENTRY,
        y_label=HEAD,
        unit=SHARE_OF_SET,
        columns=tuple(ENTRY_NAMES[entry] for entry in entries),
        rows=tuple(str(heads[place]) for place in places),
        values=tuple(
            tuple(known(shares.share(outcome, entry, 0, place).value) for entry in entries)
            for place in places
        ),
        marked=tuple((places.index(0), column) for column in range(len(entries))),
        scale="diverging",
        note=_about_receivers(outcome),
    )


def _about_receivers(outcome: Outcome) -> Text:
    if outcome == "grade":
        return Text("粗框：阅读头", "Outlined: the reader")
    return Text(
        "粗框：阅读头；每个头占它自己关注度的变化，区间含 0 的空着",
        "Outlined: the reader. Of the change of each head's own focus; empty where that may be 0",
    )


def _otherwise(study: Study, grade: Text) -> Bars:
    found = {Text("置零，其他头保持不变", "zeros, other heads held"): study.reader}
    found |= {OTHERWISE[name]: shares for name, shares in study.otherwise.items()}
    wanted: list[tuple[Text, Outcome, Entry]] = [
        (Text("关注度，q + k", "focus, q + k"), "focus", "qk"),
        (Text(f"{grade.zh}，q + k", f"{grade.en}, q + k"), "grade", "qk"),
        (Text(f"{grade.zh}，v", f"{grade.en}, v"), "grade", "v"),
    ]
    return _bars(
        "otherwise",
        Text("换一种去掉或保持的办法，份额如何", "The shares, left out or held otherwise"),
        SHARE_OF_SET,
        Text("办法", "how"),
        list(found),
        [
            _series(name, [shares.share(outcome, entry) for shares in found.values()])
            for name, outcome, entry in wanted
        ],
        None,
    )


def _series(name: Label, found: Sequence[Estimate]) -> BarSeries:
    return BarSeries(
        name=name,
        values=tuple(known(one.value) for one in found),
        intervals=tuple(percentile_interval(one.samples) for one in found),
    )


def _bars(
    name: str,
    title: Text,
    y_label: Text,
    x_label: Text,
    categories: Sequence[Label],
    series: Sequence[BarSeries],
    note: Text | None,
) -> Bars:
    return Bars(
        name=name,
        title=title,
        x_label=x_label,
        y_label=y_label,
        unit="",
        categories=tuple(categories),
        series=tuple(series),
        note=note,
    )


def _with_note(figure: Figure, said: Text) -> Figure:
    """`figure` with `said` before its note."""
    if figure.note is None:
        return replace(figure, note=said)
    first = Text(f"{said.zh}。", f"{said.en[0].upper()}{said.en[1:]}.")
    return replace(figure, note=joined([first, figure.note]))
