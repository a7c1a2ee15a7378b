"""The study of ladders in a few sentences, and what it could have seen."""

from __future__ import annotations

import math
from collections.abc import Iterator

from qt_bert.probes.base import Context
from qt_bert.probes.display import sample_of
from qt_bert.probes.ladder.losses import Losses
from qt_bert.probes.ladder.measures import LEAST_LOSS, measure
from qt_bert.probes.ladder.study import Study
from qt_bert.probes.ladder.words import DIRECTION_NAMES, LOSS, QUICK, bar_of, sized, told
from qt_bert.probes.shift.measures import Measure
from qt_bert.text import Text, counted, joined, shortest

RULE_OF_THREE = 3
"""Of n pairs of which none shows an event, up to 3/n of all may (95 %)."""


def summary(study: Study) -> Text:
    """The first layer, the directions, the step; of an offline model, what it cuts already."""
    return joined([_found(study), _again(study), _directions(study), _step(study), _offline(study)])


def resolution(study: Study, context: Context) -> Text:
    """The smallest losses that could have been seen, and what the quick profile leaves out."""
    said = [*_smallest(study)]
    return joined(said if context.full else [*said, QUICK])


def _found(study: Study) -> Text:
    """The rule on discovery, and what the rung above the free ones loses."""
    if study.first.none:
        return _none(study)
    found, what, base = study.first.found, _what(study), sample_of(study.discovery.folder.pairs)
    bar, loss, doubt = bar_of(what), _at(study, study.discovery, found + 1), _doubt(study)
    free, more = Text("", ""), Text("", "")
    if found:
        layers = counted(found, "layer")
        free = Text(
            f"切开前 {found} 层，每一级{what.title.zh}{LOSS.zh}的区间上端都不到 {bar.zh}，再",
            f"cutting the lowest {layers} loses less than {bar.en} (upper end of the interval) on every rung; ",
        )
        more = Text("", " too")
    said = Text(
        f"第一个必须同时看到两段文本的层是 L{found}：在发现集（{base.zh}）上，{free.zh}切开 L{found}，"
        f"{what.title.zh}{LOSS.zh} {loss.zh}。",
        f"The first layer that must see both texts is L{found}: on discovery ({base.en}) {free.en}cutting "
        f"L{found}{more.en} loses {loss.en} of {what.title.en}.",
    )
    return joined([said, doubt])


def _none(study: Study) -> Text:
    layers, what = study.layers, _what(study)
    bar, base = bar_of(what), sample_of(study.discovery.folder.pairs)
    return Text(
        f"没有一层必须同时看到两段文本：在发现集（{base.zh}）上，从最低层切到全部 {layers} 层，每一级"
        f"{what.title.zh}{LOSS.zh}的区间上端都不到 {bar.zh}。",
        f"No layer must see both texts (none): on discovery ({base.en}) {what.title.en} loses less than "
        f"{bar.en} (upper end of the interval) on every rung, up to all {counted(layers, 'layer')} cut.",
    )


def _doubt(study: Study) -> Text:
    """Where the rung above the free ones is not shown to lose more than the bar either."""
    bar = bar_of(_what(study))
    loss = study.discovery.loss(study.all.rungs[study.first.found + 1], study.metric)
    if loss is not None and loss.low is not None and loss.low >= LEAST_LOSS / _what(study).scale:
        return Text("", "")
    return Text(
        f"这份样本也没有证明那一级损失超过 {bar.zh}，更多的文本对可能把这一层推得更高。",
        f"That this rung loses more than {bar.en} is not shown either: more pairs may put the layer "
        "higher.",
    )


def _again(study: Study) -> Text:
    """Whether validation confirms it."""
    first, base = study.first, sample_of(study.validation.folder.pairs)
    if first.found == 0:
        loss = _at(study, study.validation, 1)
        return Text(
            f"验证集（{base.zh}）上，切开 L0 {LOSS.zh} {loss.zh}。",
            f"On validation ({base.en}) cutting L0 loses {loss.en}.",
        )
    if first.confirmed:
        return Text(f"验证集（{base.zh}）上同样成立。", f"Validation ({base.en}) confirms it.")
    loss = _at(study, study.validation, first.again + 1)
    return Text(
        f"验证集（{base.zh}）没有证实：按同一规则只能切开前 {first.again} 层，切到 L{first.again} {LOSS.zh} {loss.zh}。",
        f"Validation ({base.en}) does not confirm it: by the same rule {counted(first.again, 'layer')} may be "
        f"cut, and with L{first.again} cut the loss is {loss.en}.",
    )


def _directions(study: Study) -> Text:
    """Every direction cut in all layers, on validation."""
    what, losses = _what(study), study.validation
    cut = {
        direction: told(losses.loss(ladder.whole, study.metric), what)
        for (direction, convention), ladder in study.ladders.items()
        if convention == "before"
    }
    zh = "；".join(f"{DIRECTION_NAMES[one].zh} {loss.zh}" for one, loss in cut.items())
    en = "; ".join(f"{DIRECTION_NAMES[one].en} {loss.en}" for one, loss in cut.items())
    return Text(
        f"所有层都切（验证集），{what.title.zh}{LOSS.zh}：{zh}。",
        f"Cut in every layer (validation), the loss of {what.title.en} is: {en}.",
    )


def _step(study: Study) -> Text:
    step, asked = study.step, study.asked
    if math.isnan(step.half.value):
        return Text(
            "三种都切到顶，ρ 的下降与 0 分不开，所以谈不上损失出在哪一层。",
            "With all three cut in every layer the loss of ρ cannot be told from 0, so there is no layer it "
            "comes from.",
        )
    layer = f"L{step.half.value:.0f}"
    if asked is None or step.middle is None or step.by_chance is None:
        return Text(
            f"ρ 的下降在切到 {layer} 时过半；没有可匹配的字，选不出匹配头来比。",
            f"Half of the loss of ρ is reached with {layer} cut; the pairs have nothing to match, so there are "
            "no matching heads to compare with.",
        )
    who, middle, chance = asked.said, shortest(step.middle), f"{step.by_chance:.0%}"
    return Text(
        f"ρ 的下降在切到 {layer} 时过半；{who.zh}的中位层是 {middle}（全部层中有 {chance} 离它不超过 1 层）。",
        f"Half of the loss of ρ is reached with {layer} cut; the median layer of {who.en} is {middle} ({chance} "
        "of all layers lie within 1 of it).",
    )


def _offline(study: Study) -> Text:
    if not study.offline:
        return Text("", "")
    return Text(
        f"这个模型的前 {study.offline} 层本来就各看各的，在那里切开什么也不改变。",
        f"The lowest {counted(study.offline, 'layer')} of this model read the texts apart by themselves: cuts "
        "there change nothing.",
    )


def _smallest(study: Study) -> Iterator[Text]:
    what, losses = _what(study), study.discovery
    rung = min(study.first.found + 1, study.layers)
    loss = losses.loss(study.all.rungs[rung], study.metric)
    if loss is not None and loss.low is not None and loss.high is not None:
        half, queries = sized((loss.high - loss.low) / 2, what), losses.effects.n_queries
        yield Text(
            f"发现集上，切到 L{rung - 1} 那一级的区间半宽为 {half.zh}（{queries} 个查询）。",
            f"On discovery the half-width of the interval is {half.en} with L{rung - 1} cut "
            f"({counted(queries, 'query', 'queries')}).",
        )
    if study.metric != "accuracy":
        return
    pairs = losses.effects.n_pairs
    hidden = f"{RULE_OF_THREE / pairs / what.scale:.1f}"
    yield Text(
        f"一级上没有一对变了，真实的损失仍可能有约 {hidden} 个百分点（{pairs} 对）。",
        f"A rung on which no pair changes may still lose about {hidden} points ({pairs} pairs).",
    )


def _at(study: Study, losses: Losses, layers: int) -> Text:
    """The loss of one rung of *all*."""
    return told(losses.loss(study.all.rungs[layers], study.metric), _what(study))


def _what(study: Study) -> Measure:
    return measure(study.metric, study.validation.labels)
