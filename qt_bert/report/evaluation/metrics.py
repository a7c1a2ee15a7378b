"""The table of metrics."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Cell, Column, Prose, Table
from qt_bert.report.evaluation.words import as_interval, grouped_metrics
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.evaluation import MetricDescription, MetricValue

_DIRECTIONS = {"higher": "↑", "lower": "↓", "zero": "→ 0"}


def metrics(evaluation: EvaluationResult) -> Table:
    """Every metric with its interval, its base and one sentence on what it means."""
    counts = evaluation.pnr_counts
    note = Text(
        "方括号内为 95% 置信区间（按查询自助重采样）；↑ 越大越好，↓ 越小越好，→ 0 越接近 0 越好。",
        "Brackets hold 95 % intervals (bootstrap over queries); ↑ higher, ↓ lower, → 0 nearer to "
        "zero is better.",
    )
    if counts is not None:
        numbers = [f"{n:,}" for n in (counts.concordant, counts.discordant, counts.tied)]
        note = Text(
            f"{note.zh}PNR 的标题对：一致 {numbers[0]}，相反 {numbers[1]}，同分 {numbers[2]}。",
            f"{note.en} Title pairs of PNR: {numbers[0]} concordant, {numbers[1]} discordant, "
            f"{numbers[2]} tied.",
        )
    return Table(
        name="metrics",
        title=Text("指标", "Metrics"),
        columns=(
            Column("group", Text("类别", "group")),
            Column("metric", Text("指标", "metric")),
            Column("value", Text("值 [95% 区间]", "value [95 % interval]")),
            Column("better", Text("方向", "better")),
            Column("n", Text("对数", "pairs")),
            Column("n_eligible", Text("可评查询", "eligible queries")),
            Column("n_queries", Text("查询数", "queries")),
            Column("meaning", Text("含义", "meaning")),
        ),
        rows=tuple(_row(evaluation, *entry) for entry in grouped_metrics(evaluation)),
        note=note,
        grouped=True,
    )


def _row(
    evaluation: EvaluationResult, group: Text, name: str, metric: MetricValue
) -> tuple[Cell, ...]:
    described = evaluation.descriptions.get(name)
    direction = _DIRECTIONS[described.direction] if described else None
    return (
        group,
        name,
        as_interval(metric),
        direction,
        metric.n,
        metric.n_eligible,
        metric.n_queries,
        _meaning(described, metric),
    )


def _meaning(described: MetricDescription | None, metric: MetricValue) -> Text | None:
    if metric.value is None and metric.reason:
        return Text(f"无值：{metric.reason}", f"no value: {metric.reason}")
    if described is None:
        return None
    if described.title is None:
        return Text(described.zh, described.en)
    title = described.title
    return Text(f"{title.zh}：{described.zh}", f"{title.en}: {described.en}")


def resolution(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """How small a difference this sample can show, after the interval of accuracy."""
    metric = evaluation.metrics.get("accuracy")
    if metric is None or metric.ci_low is None or metric.ci_high is None:
        return ()
    half = 50 * (metric.ci_high - metric.ci_low)
    pairs, queries = evaluation.pairs.n_pairs, evaluation.pairs.n_queries
    return (
        Prose(
            body=Text(
                f"样本量：{pairs:,} 对、{queries:,} 个查询。"
                f"准确率区间的半宽为 {half:.1f} 个百分点：与某个目标值相差更小时，这份数据分不出；"
                "两个模型在同样的对上相比，另看成对差别的区间。",
                f"Sample: {pairs:,} pairs, {queries:,} queries. The interval of accuracy is "
                f"± {half:.1f} points: these data cannot tell it from a target nearer than that. Two "
                "models on the same pairs are compared by the interval of their paired difference.",
            )
        ),
    )
