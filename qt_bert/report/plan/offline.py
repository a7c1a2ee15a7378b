"""Titles read before the query comes: a row a number of layers, bytes, and the retrained model."""

from __future__ import annotations

from qt_bert.report.blocks import Badge, Block, Column, FigureBlock, Prose, Table
from qt_bert.report.plan.offline_words import KILOBYTE, kept_in_words, recommendation
from qt_bert.report.plan.words import change, metric_name, ratio
from qt_bert.results import Curve, Text
from qt_bert.results.figures import Point, Series
from qt_bert.results.offline import MOST_LOST, OfflinePlan, OfflineRow
from qt_bert.results.plan_evidence import Measured
from qt_bert.results.probe import PairsRef
from qt_bert.results.text import counted

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
