"""Layers set back to before fine-tuning: the claim of no effect, the curve over depths, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from qt_bert.figures import Curve, Figure, Point, Series
from qt_bert.probes.claims import POINT, no_effect
from qt_bert.probes.display import resting_on, sample_of
from qt_bert.probes.shift.measures import MEASURES, OWN_ORDER, Measure
from qt_bert.probes.shift.set_back import third
from qt_bert.probes.shift.set_back_study import METRICS, VALIDATION, SetBack
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.intervals import percentile_interval
from qt_bert.stats.multiplicity import NO_EFFECT_ACCURACY, NO_EFFECT_SPEARMAN
from qt_bert.text import Text, counted, signed

_SOURCE = Source(
    article="primer_in_bertology",
    section="模型结构与表征分布",
    value=Text("影响不大", "little effect"),
)
_MARGINS = {"spearman": NO_EFFECT_SPEARMAN, "accuracy": NO_EFFECT_ACCURACY / POINT}
PRUNED = {
    "zh": "没有测低层换回微调前的权重会怎样：这个模型剪过枝，换回去会把剪掉的部分也带回来。",
    "en": "What setting low layers back costs was not measured: this model was pruned, and the layers "
    "before fine-tuning would bring back what it lost.",
}
_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "低层在微调中的改动对评分几乎没有用处：换回预训练的权重，排序几乎不变。",
        "What fine-tuning changed in the low layers hardly matters: with the pretrained weights back "
        "in their place the order stays.",
    ),
    "not reproduced": Text(
        "低层在微调中的改动不能不要：高层已与改动后的低层配合，换回去，排序就变了。",
        "What fine-tuning changed in the low layers matters: the upper layers go with it, and the order "
        "changes where it is taken back.",
    ),
    "inconclusive": Text(
        "区间伸出了 ±0.02：这份样本既不能说有影响，也不能说没有。",
        "The interval reaches beyond ± 0.02: this sample shows neither an effect nor its absence.",
    ),
}


def set_back_findings(studied: Sequence[SetBack]) -> Iterator[Finding]:
    """No effect of the lowest third on ρ, of every set of pairs; accuracy stands beside it."""
    for number, one in enumerate(studied):
        for metric in METRICS:
            finding = _finding(number, one, metric)
            if finding is not None:
                yield finding


def _finding(number: int, one: SetBack, metric: str) -> Finding | None:
    depth = _third(one)
    change = one.change(depth, metric)
    if change is None and metric == "accuracy":
        return None
    what, unit, scale = _measure(one, metric)
    held_out = f"_held_out_{number}" if one.name != VALIDATION else ""
    where = _where(one)
    return no_effect(
        f"set_back{held_out}{'_accuracy' if metric == 'accuracy' else ''}",
        Text(
            f"把嵌入层和最低 {depth} 层换回微调前的权重，{what.zh}不变（{where.zh}）",
            f"With the embeddings and the lowest {counted(depth, 'layer')} set back to before fine-tuning, "
            f"{what.en} stays ({where.en})",
        ),
        _SOURCE,
        None if change is None else change.value / scale,
        None if change is None else change.samples / scale,
        n_queries=one.effects.n_queries,
        margin=_MARGINS[metric],
        unit=unit,
        primary=metric == "spearman",
        conclusions=_CONCLUSIONS if metric == "spearman" else None,
    )


def set_back_figures(studied: Sequence[SetBack]) -> Iterator[Figure]:
    """Each metric's change over the number of layers set back, a line for every set of pairs."""
    if not studied:
        return
    base = _bases(studied)
    for metric in METRICS:
        series = tuple(
            Series(name=_where(one), points=tuple(_points(one, metric)))
            for one in studied
            if one.untouched(metric) is not None
        )
        if series:
            yield from resting_on(base, [_curve(metric, _measure(studied[0], metric), series)])


def _bases(studied: Sequence[SetBack]) -> Text:
    bases = [(_where(one), sample_of(one.pairs)) for one in studied]
    return Text(
        "；".join(f"{name.zh} {base.zh}" for name, base in bases),
        "; ".join(f"{name.en} {base.en}" for name, base in bases),
    )


def _curve(metric: str, measure: Measure, series: tuple[Series, ...]) -> Curve:
    name = measure.title
    return Curve(
        name=f"set_back_{metric}",
        title=Text(
            f"低层换回微调前的权重，{name.zh}的变化",
            f"Change of {name.en} with low layers set back to before fine-tuning",
        ),
        x_label=Text("换回的层数 k（嵌入层总是换回）", "layers set back, k (embeddings always)"),
        y_label=Text("变化", "change"),
        unit=measure.unit,
        series=series,
        note=Text(
            "k = 0 只换回嵌入层；k 为全部层数时只剩微调后的分类头。",
            "k = 0 sets back the embeddings alone; at the last k only the tuned head is left.",
        ),
    )


def _points(one: SetBack, metric: str) -> Iterator[Point]:
    scale = _measure(one, metric).scale
    for depth in one.depths:
        change = one.change(depth, metric)
        if change is not None:
            low, high = percentile_interval(change.samples / scale) or (None, None)
            yield Point(
                x=depth, y=change.value / scale, low=low, high=high, n=one.effects.n_queries
            )


def set_back_settings(studied: Sequence[SetBack]) -> dict[str, Any]:
    """What was looked at: samples, depths, and the untouched figures."""
    if not studied:
        return PRUNED
    return {
        one.name: {
            "pairs": one.effects.n_pairs,
            "queries": one.effects.n_queries,
            "depths": list(one.depths),
            "untouched": {metric: one.untouched(metric) for metric in METRICS},
        }
        for one in studied
    }


def set_back_summary(studied: Sequence[SetBack]) -> Text:
    """What the lowest third costs on validation."""
    if not studied:
        return Text(PRUNED["zh"], f" {PRUNED['en']}")
    one = studied[0]
    depth = _third(one)
    change, whole = one.change(depth, "spearman"), one.change(one.depths[-1], "spearman")
    if change is None or whole is None:
        return Text("", "")
    return Text(
        f"把嵌入层和最低 {depth} 层换回微调前的权重，ρ 变化 {signed(change.value)}；全部层都换回，"
        f"{signed(whole.value)}。",
        f" With embeddings and the lowest {counted(depth, 'layer')} set back, ρ changes by {signed(change.value)}; "
        f"with all of them, by {signed(whole.value)}.",
    )


def _measure(one: SetBack, metric: str) -> Measure:
    own = metric == "spearman" and one.outputs == 1
    return OWN_ORDER if own else MEASURES[metric]


def _third(one: SetBack) -> int:
    return third(one.depths[-1])


def _where(one: SetBack) -> Text:
    return Text("验证集", "validation") if one.name == VALIDATION else Text(one.name, one.name)
