"""How sure the labels are: how far two passes agree, how far the classifiers, and what they confuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qt_bert.figures import Bars, BarSeries, Figure, HeatMap
from qt_bert.probes.display import cells
from qt_bert.probes.patterns.classifier import NETWORK, RULES, Classifier, Measured
from qt_bert.probes.patterns.kinds import KIND_NAMES, KINDS
from qt_bert.text import Label, Text

NAMES: Mapping[str, Text] = {
    RULES: Text("按规则，宏平均 F1", "by rules, macro-F1"),
    NETWORK: Text("卷积网络，宏平均 F1", "convolutional network, macro-F1"),
}
_KAPPA = Text("两遍看图标注，κ", "two passes of labelling, κ")
_MAPS = Text("张", "maps")


def agreement(classifier: Classifier) -> Iterator[Figure]:
    """Bars of κ and both classifiers' macro-F1, and the counts behind them."""
    yield _bars(classifier)
    yield _crossed(
        "confusion",
        Text("看图标注与分类器", "Labels and the classifier's answers"),
        Text("分类器", "classifier"),
        Text("标注", "label"),
        classifier.judged.confusion,
        Text(
            "每个头的图，都由没有见过这个头的分类器来判（按层和头分折）。",
            "Every map was judged by a classifier that had seen none of its head.",
        ),
    )
    if classifier.record.passes is not None:
        yield _crossed(
            "passes",
            Text("两遍看图标注", "Two passes of labelling"),
            Text("第二遍（盲标）", "second pass, blind"),
            Text("第一遍", "first pass"),
            classifier.record.passes.confusion,
            Text("同一批图。", "The same maps."),
        )


def _bars(classifier: Classifier) -> Bars:
    record = classifier.record
    shown: list[tuple[Label, Measured, Measured]] = []
    if record.passes is not None:
        shown.append((_KAPPA, record.passes.kappa, record.passes.kappa_trained))
    shown += [
        (NAMES[name], one.macro_f1, one.macro_f1_trained) for name, one in record.judged.items()
    ]
    names, every, trained = zip(*shown, strict=True)
    counted = [KIND_NAMES[kind] for kind in record.counted]
    chosen = NAMES[record.chosen]
    return Bars(
        name="agreement",
        title=Text("这五类分得多准", "How surely the five kinds are told apart"),
        x_label=Text("比较", "compared"),
        y_label=Text("一致程度，1 为完全一致", "agreement, 1 is perfect"),
        unit="",
        categories=names,
        series=(
            _series(Text("全部的图", "all maps"), every),
            _series(Text("不含随机权重的图", "without maps of random weights"), trained),
        ),
        digits=2,
        note=Text(
            f"{record.maps} 张按种子抽取的图，由 AI 看图标注；折按层和头分，跨全部模型。"
            "随机权重模型的图都是块，容易认。"
            f"F1 平均的是标注够多的类：{'、'.join(one.zh for one in counted)}。用于本探针的：{chosen.zh.split('，')[0]}。",
            f"{record.maps} maps drawn by seed, labelled by AI raters who looked at them; folds "
            f"grouped by layer and head over all models. Maps of random weights are all blocks and "
            f"easy to tell. F1 is averaged over the kinds with labels enough: "
            f"{', '.join(one.en for one in counted)}. Used here: {chosen.en.split(',')[0]}.",
        ),
    )


def _series(name: Text, measured: Sequence[Measured]) -> BarSeries:
    return BarSeries(
        name=name,
        values=tuple(one.value for one in measured),
        intervals=tuple((one.low, one.high) for one in measured),
    )


def _crossed(
    name: str,
    title: Text,
    columns: Text,
    rows: Text,
    counts: Sequence[Sequence[int]],
    note: Text,
) -> HeatMap:
    names = tuple(KIND_NAMES[kind] for kind in KINDS)
    return HeatMap(
        name=name,
        title=title,
        x_label=columns,
        y_label=rows,
        unit=_MAPS,
        columns=names,
        rows=names,
        values=cells(np.array(counts, np.float64)),
        low=0.0,
        digits=0,
        note=note,
    )
