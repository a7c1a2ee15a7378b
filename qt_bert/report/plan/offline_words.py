"""Which layers may read titles before the query comes, said in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.report.plan.words import change_in_words, metric_name
from qt_bert.results import Text
from qt_bert.results.numbers import interval, number
from qt_bert.results.offline import (
    LEAST_KEPT,
    MOST_LOST,
    NoRows,
    OfflinePlan,
    OfflineRow,
    Retrained,
    StoredTitles,
)
from qt_bert.results.plan_evidence import Ratio
from qt_bert.results.text import joined

KILOBYTE = 1000
PERCENT = 100

_REASONS: dict[NoRows, Text] = {
    "offline": Text(
        "这个模型本身就是离线模型，它的低层已经把查询和标题分开读；这里不再比较层数，请对训练它的原模型做计划。",
        "This model is an offline one already: its lower layers read query and title apart. Numbers of "
        "layers are not compared here; plan for the model it was trained from.",
    ),
    "one layer": Text(
        "这个模型只有一层，而至少要有一层同时读查询和标题，所以没有可以先算的层。",
        "This model has one layer, and one at least must read both texts: there is none to be read "
        "beforehand.",
    ),
    "no room": Text(
        "查询太长：在模型的最大长度内，多数查询之后没有给标题留下位置，所以标题不能先算。",
        "The queries are long: behind most of them the model's length leaves no room for a title, so "
        "titles cannot be read beforehand.",
    ),
}


def recommendation(found: OfflinePlan) -> Text:
    """How many layers, what they cost before and after retraining, bytes and speed; or why none."""
    if found.reason is not None:
        return _REASONS[found.reason]
    return joined(_sentences(found))


def _sentences(found: OfflinePlan) -> Iterator[Text]:
    row = found.at
    yield _free(found, row) if found.chosen is not None else _not_free(found, row)
    if found.retrained is not None:
        yield after_training(found.retrained)
    elif found.chosen is None and found.retrain:
        yield _to_train(found.retrain)
    if found.titles is not None:
        yield _stored(found.titles)
    if row is not None and row.speed is not None and found.timed is not None:
        yield _faster(row, row.speed, found.timed.titles)


def _free(found: OfflinePlan, row: OfflineRow | None) -> Text:
    zh, en = _metric(found)
    costs = _changes(row, found)
    return Text(
        f"最低 {found.chosen} 层（共 {found.layers} 层）可以在查询到来之前先读标题，不必重新训练：在发现集上，{zh}"
        f"的下降连区间上端也不到 {MOST_LOST}{costs.zh}。",
        f"The lowest {found.chosen} of {found.layers} layers can read titles before the query comes, "
        f"without retraining: on discovery {en} falls by less than {MOST_LOST}, upper end of the "
        f"interval included{costs.en}.",
    )


def _not_free(found: OfflinePlan, row: OfflineRow | None) -> Text:
    zh, en = _metric(found)
    tried = ", ".join(str(one.layers) for one in found.rows)
    costs = _changes(row, found)
    return Text(
        f"不重新训练就不行：试过的层数（共 {found.layers} 层，试了 {tried.replace(', ', '、')} 层）里，没有一个能在发现集上"
        f"确认{zh}的下降不到 {MOST_LOST}（看区间上端）。应取最低 {found.retrain} 层，重新训练{costs.zh}。",
        f"Not free without retraining: of the numbers of layers tried ({tried} of {found.layers}) none "
        f"is shown to lose less than {MOST_LOST} of {en} on discovery (upper end of the interval). "
        f"The number to train with is {found.retrain}{costs.en}.",
    )


def _metric(found: OfflinePlan) -> tuple[str, str]:
    """The deciding metric's name in both languages."""
    if found.metric is None:
        return "质量", "quality"
    name = metric_name(found.metric)
    return name.zh, name.en


def _changes(row: OfflineRow | None, found: OfflinePlan) -> Text:
    """`; on validation it changes by …`, with moved positions and the block each alone."""
    metric = found.metric
    if row is None or metric is None or metric not in row.both:
        return Text("", "")
    both, block = row.both[metric], row.block[metric]
    moved, name = found.positions[metric], metric_name(metric)
    shown, alone = change_in_words(both), (change_in_words(moved), change_in_words(block))
    return Text(
        f"；未训练时，{name.zh}在验证集上变化 {shown}（只挪动标题的位置 {alone[0]}，只隔开两段文本 {alone[1]}）",
        f"; untrained, {name.en} changes by {shown} on validation (moved title positions alone {alone[0]}, "
        f"the texts apart alone {alone[1]})",
    )


def after_training(one: Retrained) -> Text:
    """What the retrained offline model keeps of its control."""
    parts = [(metric_name(name), change_in_words(found)) for name, found in one.measured.items()]
    zh = "，".join(f"{name.zh} {shown}" for name, shown in parts)
    en = ", ".join(f"{name.en} {shown}" for name, shown in parts)
    kept = kept_in_words(one.kept) if one.kept is not None else Text("", "")
    return Text(
        f"重新训练后（{one.name}，最低 {one.layers} 层隔开文本），与同样训练、但不隔开文本的对照相比：{zh}{kept.zh}。",
        f"Retrained with {one.layers} such layers ({one.name}), against a control trained alike but for "
        f"the block: {en}{kept.en}.",
    )


def kept_in_words(kept: Ratio) -> Text:
    """`; it keeps 98.1 % [96.9, 99.2] of the control's QWK (aim: 97 %)`."""
    ends = [None if end is None else PERCENT * end for end in (kept.low, kept.high)]
    value, shown = number(PERCENT * kept.value, 1), interval(ends[0], ends[1], 1)
    aim = round(PERCENT * LEAST_KEPT)
    zh, en = f"{value}% {shown}".rstrip(), f"{value} % {shown}".rstrip()
    return Text(
        f"；保住对照 QWK 的 {zh}（目标 {aim}%）",
        f"; it keeps {en} of the control's QWK (aim: {aim} %)",
    )


def _to_train(layers: int) -> Text:
    return Text(
        f"训练：`qt-bert train --offline-layers {layers}`；再用同样的命令、不带这个选项，训练一个对照，用 `qt-bert plan "
        "--offline … --offline-control …` 比较。",
        f"To train it: `qt-bert train --offline-layers {layers}`; train a control without that option, "
        "and compare the two with `qt-bert plan --offline … --offline-control …`.",
    )


def _stored(titles: StoredTitles) -> Text:
    half, eighth = (number(titles.size[kind] / KILOBYTE, 1) for kind in ("float16", "int8"))
    tokens = number(titles.tokens, 1)
    return Text(
        f"一条标题平均 {tokens} 个词元，存下的状态占 {half} kB（float16）或 {eighth} kB（int8）。",
        f"A title of {tokens} tokens on average takes {half} kB as float16 states, {eighth} kB as int8.",
    )


def _faster(row: OfflineRow, speed: Ratio, titles: int) -> Text:
    shown = f"{number(speed.value, 2)} {interval(speed.low, speed.high, 2)}".rstrip()
    return Text(
        f"这样，给 1 个查询的 {titles} 条标题评分，{row.layers} 层离线时的速度是原来的 {shown} 倍。",
        f"One query over {titles} titles is then scored {shown} times as fast with {row.layers} layers "
        "offline.",
    )
