"""Metrics of both models, and the pairs on which they differ most."""

from __future__ import annotations

from qt_bert.report.blocks import Badge, Block, Cell, Column, FigureBlock, Interval, Prose, Table
from qt_bert.report.comparison.names import names
from qt_bert.report.evaluation.words import headlines, in_groups, with_value
from qt_bert.results import Bars, EvaluationResult, Text
from qt_bert.results.comparison import ComparisonResult, MetricDifference
from qt_bert.results.evaluation import JudgedModel
from qt_bert.results.figures import BarSeries
from qt_bert.results.numbers import shortest

SIGNIFICANT = 0.05
_ALIKE = Badge(Text("分不出", "no difference shown"), "open")


def models(comparison: ComparisonResult) -> Prose:
    """Who A and B are."""
    described = [_model(one) for one in (comparison.a, comparison.b)]
    a, b = names(comparison)
    zh, en = ([getattr(one, language) for one in described] for language in ("zh", "en"))
    return Prose(
        body=Text(
            f"{a}（{zh[0]}）；{b}（{zh[1]}）。两个模型都给同样的 {comparison.n_pairs:,} 对打分。",
            f"{a} ({en[0]}); {b} ({en[1]}). Both grade the same {comparison.n_pairs:,} pairs.",
        )
    )


def _model(model: JudgedModel) -> Text:
    size = shortest(model.parameters / 1e6)
    return Text(
        f"{model.layers} 层 × {model.heads} 头，{size} 百万参数",
        f"{model.layers} layers × {model.heads} heads, {size} million parameters",
    )


def metrics_table(comparison: ComparisonResult, evaluation: EvaluationResult) -> Table:
    """Every metric of both, with the paired difference, its interval and its p."""
    a, b = names(comparison)
    return Table(
        name="comparison_metrics",
        title=Text("指标：两个模型", "Metrics of both models"),
        columns=(
            Column("group", Text("类别", "group")),
            Column("metric", Text("指标", "metric")),
            Column("a", a),
            Column("b", b),
            Column("difference", Text("B − A [95% 区间]", "B − A [95 % interval]")),
            Column("p", "p", digits=4, least=True),
            Column("better", Text("更好的", "better")),
            Column("n", Text("对数", "pairs")),
            Column("n_queries", Text("查询数", "queries")),
        ),
        rows=tuple(
            (group, name, *_row(metric, _direction(evaluation, name)))
            for group, name, metric in in_groups(comparison.metrics)
        ),
        note=_how(comparison),
        grouped=True,
    )


def _how(comparison: ComparisonResult) -> Text:
    """How intervals and p were made, and why some metrics have no value."""
    resamples, draws = (comparison.settings.get(name, 0) for name in ("resamples", "draws"))
    zh = (
        f"区间：对查询自助重采样，两个模型用同样的样本（{resamples:,} 次）。p：逐查询随机交换两个模型的"
        f"预测（{draws:,} 次），每个指标单独计算，未作多重校正。"
    )
    en = (
        f"Intervals: bootstrap over queries, the same resamples for both models ({resamples:,}). "
        f"p: the two models' predictions swapped query by query ({draws:,} draws), each metric for "
        "itself, not corrected for their number."
    )
    for reason, names_of in _missing(comparison).items():
        zh += f"无值：{'、'.join(names_of)}（{reason}）。"
        en += f" Without a value: {', '.join(names_of)} ({reason})."
    return Text(zh, en)


def _missing(comparison: ComparisonResult) -> dict[str, list[str]]:
    """Reason → the metrics that have no value for it."""
    found: dict[str, list[str]] = {}
    for name, metric in comparison.metrics.items():
        if metric.reason:
            found.setdefault(metric.reason, []).append(name)
    return found


def _direction(evaluation: EvaluationResult, name: str) -> str | None:
    described = evaluation.descriptions.get(name)
    return None if described is None else described.direction


def _row(metric: MetricDifference, direction: str | None) -> tuple[Cell, ...]:
    return (
        metric.value_a,
        metric.value_b,
        Interval(value=metric.difference, low=metric.ci_low, high=metric.ci_high),
        metric.p,
        _better(metric, direction),
        metric.n,
        metric.n_queries,
    )


def _better(metric: MetricDifference, direction: str | None) -> Badge | None:
    """Which model is better, where interval and p both say so."""
    low, high, p = metric.ci_low, metric.ci_high, metric.p
    if metric.difference is None or low is None or high is None or p is None:
        return None
    if direction not in ("higher", "lower"):
        return None
    if low <= 0 <= high or p >= SIGNIFICANT:
        return _ALIKE
    b_wins = (metric.difference > 0) == (direction == "higher")
    return Badge(Text("B", "B"), "good") if b_wins else Badge(Text("A", "A"), "bad")


def headline_bars(
    comparison: ComparisonResult, a: EvaluationResult, b: EvaluationResult
) -> tuple[Block, ...]:
    """The headline metrics of both, each with its own interval."""
    shown = headlines(with_value(a) & with_value(b) & comparison.metrics.keys())
    if not shown:
        return ()
    figure = Bars(
        name="comparison_headlines",
        title=Text("两个模型的主要指标", "Headline metrics of both models"),
        x_label=Text("指标", "metric"),
        y_label=Text("值", "value"),
        unit=Text("1 为最好", "1 is best"),
        categories=tuple(shown.values()),
        series=tuple(
            BarSeries(
                name=label,
                values=tuple(one.metrics[name].value for name in shown),
                intervals=tuple(_ends(one, name) for name in shown),
            )
            for label, one in zip(names(comparison), (a, b), strict=True)
        ),
        digits=3,
        note=Text(
            f"{comparison.n_pairs:,} 对；线段为各自的 95% 区间，差别的区间见表。",
            f"{comparison.n_pairs:,} pairs; lines are each model's own 95 % interval, those of the "
            "differences stand in the table.",
        ),
    )
    return (FigureBlock(figure=figure),)


def _ends(evaluation: EvaluationResult, name: str) -> tuple[float, float] | None:
    metric = evaluation.metrics[name]
    return (
        None if metric.ci_low is None or metric.ci_high is None else (metric.ci_low, metric.ci_high)
    )


def most_different(comparison: ComparisonResult) -> tuple[Block, ...]:
    """The pairs on which the two models' scores lie furthest apart."""
    if not comparison.most_different:
        return ()
    a, b = names(comparison)
    return (
        Table(
            name="comparison_pairs",
            title=Text("两个模型差别最大的对", "Pairs on which the two differ most"),
            columns=(
                Column("query", Text("查询", "query")),
                Column("title", Text("标题", "title")),
                Column("label", Text("标注", "label")),
                Column("a", a, digits=2),
                Column("b", b, digits=2),
            ),
            rows=tuple(
                (
                    pair.query,
                    pair.title,
                    None if pair.grade is None else str(pair.grade),
                    pair.a,
                    pair.b,
                )
                for pair in comparison.most_different
            ),
            note=Text(
                "数值为期望等级，按两者之差挑选；有一个模型只给一个 logit 时，它的数值是分数，按两者名次之差挑选。",
                "Figures are expected grades, chosen by their difference. Where a model has one logit "
                "its figures are scores, and pairs are chosen by the difference of their ranks.",
            ),
        ),
    )
