"""Titles read before the query comes, in tables and in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.figures import Curve, Point, Series
from qt_bert.report.blocks import Badge, Block, Column, FigureBlock, Prose, Table
from qt_bert.report.plan_summary import change, change_in_words, metric_name, ratio
from qt_bert.results.plan import (
    LEAST_KEPT,
    MOST_LOST,
    Measured,
    NoRows,
    OfflinePlan,
    OfflineRow,
    Ratio,
    Retrained,
    StoredTitles,
)
from qt_bert.results.probe import PairsRef
from qt_bert.text import Text, counted, interval, joined, number

# Which layers may read titles before the query comes, said in a few sentences.


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


# Titles read before the query comes: a row a number of layers, bytes, and the retrained model.


TITLE = Text("查询到来之前先读标题", "Titles read before the query comes")
WAYS = {
    "positions": Text("只挪动位置", "moved positions alone"),
    "block": Text("只隔开文本", "texts apart alone"),
    "both": Text("两者", "both"),
}
"""What of an offline model is changed."""

_CHOSEN = Badge(Text("可行", "free"), "good")
_RETRAIN = Badge(Text("建议训练", "to train with"), "open")


def offline(found: OfflinePlan | None) -> tuple[Block, ...]:
    """The recommendation, the rows with their curve, what titles take, and the retrained model."""
    if found is None:
        return ()
    return (
        Prose(title=TITLE, body=recommendation(found)),
        *_rows(found),
        *_curve(found),
        *_titles(found),
        *_retrained(found),
    )


def _rows(found: OfflinePlan) -> tuple[Block, ...]:
    if not found.rows:
        return ()
    shown = _columns(found)
    return (
        Table(
            name="plan_offline",
            title=Text(
                "先读标题的层数：质量与速度", "Layers that read titles beforehand: quality, speed"
            ),
            columns=(
                Column("layers", Text("最低几层", "lowest layers")),
                Column("choice", Text("选择", "choice")),
                *(_column(found, way, metric) for way, metric in shown),
                Column("speed", Text("速度（倍）", "speed (×)")),
            ),
            rows=tuple(
                (
                    row.layers,
                    _badge(found, row),
                    *(change(_measured(found, row, *one)) for one in shown),
                    ratio(row.speed),
                )
                for row in found.rows
            ),
            note=_note(found),
        ),
    )


def _columns(found: OfflinePlan) -> list[tuple[str, str]]:
    """The deciding metric in all three ways, the others where both are changed: way and metric."""
    others = [("both", name) for name in found.positions if name != found.metric]
    deciding = [] if found.metric is None else [(way, found.metric) for way in WAYS]
    return deciding + others


def _measured(found: OfflinePlan, row: OfflineRow, way: str, metric: str) -> Measured | None:
    return {"positions": found.positions, "block": row.block, "both": row.both}[way].get(metric)


def _column(found: OfflinePlan, way: str, metric: str) -> Column:
    name = metric_name(metric)
    return Column(
        way if metric == found.metric else f"{way}_{metric}",
        Text(f"{name.zh}：{WAYS[way].zh}", f"{name.en}: {WAYS[way].en}"),
    )


def _badge(found: OfflinePlan, row: OfflineRow) -> Badge | None:
    if found.chosen is None:
        return _RETRAIN if row.layers == found.retrain else None
    return _CHOSEN if row.layers == found.chosen else None


def _note(found: OfflinePlan) -> Text:
    start, room = found.title_start, found.title_tokens
    on, chosen_on = _of(found.validation), _of(found.discovery)
    long = f"{100 * found.long_queries:.1f}"
    timed = found.timed
    zh = (
        f"都不重新训练，是在验证集的{on.zh}上的变化和 95% 区间。“隔开”：这些层里，标题看不到查询和 [CLS]，查询也看不到"
        f"标题。“挪动”：标题从第 {start} 个位置开始（发现集上 95% 的查询到此为止；{long}% 的对更长，标题跟在后面），"
        f"最多 {room} 个词元；它与层数无关，所以各行相同。层数在发现集的{chosen_on.zh}上选：下降连区间上端也不到 {MOST_LOST} "
        "的最大层数，没有就取一半的层去重新训练。"
    )
    en = (
        f"All without retraining: changes on {on.en} of validation, with 95 % intervals. Apart: in these "
        "layers the title sees neither query nor [CLS], and the query not the title. Moved: titles begin "
        f"at position {start}, where 95 % of the queries of discovery have ended (behind the query in the "
        f"{long} % of pairs where it is longer), and have up to {room} tokens; that is the same for any "
        f"number of layers. The number is chosen on {chosen_on.en} of discovery: the largest that loses "
        f"less than {MOST_LOST}, upper end of the interval included; where there is none, half of the layers "
        "are to be retrained."
    )
    if timed is not None:
        zh += (
            f"速度：1 个查询 × {timed.titles} 条标题，从文本到输出，与原模型在同一次运行中交替计时（{timed.queries} 个查询，"
            f"原模型 {timed.whole_ms:.0f} 毫秒）；低层只读一遍查询，标题的状态（{timed.states}）是事先存好的。它与权重无关，"
            "训练前后一样。"
        )
        en += (
            f" Speed: one query × {timed.titles} titles, texts to logits, in turns with the model as it is, "
            f"in one run ({counted(timed.queries, 'query', 'queries')}; the model takes {timed.whole_ms:.0f} "
            f"ms); the low layers read the query once, the titles' states ({timed.states}) are read. It does "
            "not depend on the weights: it is the same before and after training."
        )
    return Text(zh, en)


def _of(pairs: PairsRef | None) -> Text:
    count, queries = (0, 0) if pairs is None else (pairs.n_pairs or 0, pairs.n_queries or 0)
    return Text(
        f" {count:,} 对（{queries:,} 个查询）",
        f"{counted(count, 'pair')} ({counted(queries, 'query', 'queries')})",
    )


def _curve(found: OfflinePlan) -> tuple[Block, ...]:
    """The deciding metric's change over the number of layers."""
    metric = found.metric
    if metric is None or len(found.rows) < 2:
        return ()
    name = metric_name(metric)
    return (
        FigureBlock(
            figure=Curve(
                name="plan_offline_curve",
                title=Text(
                    "先读标题的层越多，质量变多少",
                    "Quality by the layers that read titles beforehand",
                ),
                x_label=Text("最低几层", "lowest layers"),
                y_label=Text(f"{name.zh}的变化", f"change of {name.en}"),
                unit="",
                series=tuple(_series(found, way, metric) for way in ("both", "block", "positions")),
                note=Text(
                    "在验证集上，不重新训练；色带为 95% 区间。",
                    "On validation, without retraining; bands are 95 % intervals.",
                ),
            )
        ),
    )


def _series(found: OfflinePlan, way: str, metric: str) -> Series:
    """A line a way; that of the moved positions is level, and dashed."""
    queries = None if found.validation is None else found.validation.n_queries
    measured = [(row.layers, _measured(found, row, way, metric)) for row in found.rows]
    return Series(
        name=WAYS[way],
        points=tuple(
            Point(x=layers, y=one.change, low=one.ci_low, high=one.ci_high, n=queries)
            for layers, one in measured
            if one is not None
        ),
        dashed=way == "positions",
    )


def _titles(found: OfflinePlan) -> tuple[Block, ...]:
    titles = found.titles
    if titles is None:
        return ()
    return (
        Table(
            name="plan_offline_titles",
            title=Text("存下标题的状态要占多少", "What stored title states take"),
            columns=(
                Column("states", Text("数值类型", "number type")),
                Column("kilobytes", Text("每条标题（kB）", "a title (kB)"), digits=2),
            ),
            rows=tuple((kind, size / KILOBYTE) for kind, size in titles.size.items()),
            note=Text(
                f"按发现集里 {titles.titles:,} 条不同的标题，平均 {titles.tokens:.1f} 个词元（含分隔符）；与层数无关；一百万条标题就是同样数目的 GB。int8 "
                "另存每个词元一个比例；每条标题还有一个键。",
                f"By the {counted(titles.titles, 'distinct title')} of discovery, {titles.tokens:.1f} tokens "
                "on average, separators included; the same for any number of layers; a million titles take as many GB. int8 has a scale for "
                "each token besides, and each title a key.",
            ),
        ),
    )


def _retrained(found: OfflinePlan) -> tuple[Block, ...]:
    one = found.retrained
    if one is None:
        return ()
    kept = kept_in_words(one.kept) if one.kept is not None else Text("", "")
    on = _of(one.pairs)
    return (
        Table(
            name="plan_offline_retrained",
            title=Text("重新训练以后", "After retraining"),
            columns=(
                Column("metric", Text("指标", "metric")),
                Column("control", Text("对照", "control")),
                Column("offline", Text("离线模型", "offline model")),
                Column("change", Text("差 [95% 区间]", "difference [95 % interval]")),
            ),
            rows=tuple(
                (metric_name(name), measured.base, measured.value, change(measured))
                for name, measured in one.measured.items()
            ),
            note=Text(
                f"{one.name}：最低 {one.layers} 层隔开，标题从第 {one.title_start} 个位置开始，最多 {one.title_tokens} 个词元；"
                f"对照 {one.control} 用同样的数据、设置和种子训练，不隔开文本。在验证集全部{on.zh}上，按查询配对{kept.zh}。",
                f"{one.name}: texts apart in the lowest {counted(one.layers, 'layer')}, titles from position "
                f"{one.title_start}, up to {one.title_tokens} tokens; the control {one.control} was trained on "
                f"the same data with the same settings and seed, without the block. On all {on.en} of "
                f"validation, paired over queries{kept.en}.",
            ),
        ),
    )
