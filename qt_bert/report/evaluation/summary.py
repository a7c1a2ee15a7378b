"""The grades at a glance: four numbers that stay in view, and one line."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.report.blocks import Card
from qt_bert.report.evaluation.words import HEADLINES, as_interval, base, headlines, with_value
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.numbers import number, shortest

_SHARES = {
    "accuracy": Text("判对", "right"),
    "within_one": Text("至多差一档", "at most one level off"),
    "pairwise_accuracy": Text("同一查询下两个标题排对", "pairs of titles in the right order"),
}
_FIGURES = ("qwk", "spearman", "ndcg_at_5")


def summary_cards(evaluation: EvaluationResult) -> tuple[Card, ...]:
    """The headline metrics that have a value."""
    return tuple(
        Card(title=title, value=as_interval(metric), base=base(metric))
        for name, title in headlines(with_value(evaluation)).items()
        for metric in (evaluation.metrics[name],)
    )


def in_one_line(evaluation: EvaluationResult) -> Text:
    """Who graded what how well, in one sentence."""
    model, pairs = evaluation.model, evaluation.pairs
    shown = list(_shown(evaluation))
    zh = "，".join(one.zh for one in shown)
    en = ", ".join(one.en for one in shown)
    return Text(
        f"{model.name}（{model.layers} 层 × {model.heads} 头，{shortest(model.parameters / 1e6)} 百万参数）"
        f"在 {pairs.name} 的 {pairs.n_pairs:,} 对、{pairs.n_queries:,} 个查询上：{zh}。",
        f"{model.name} ({model.layers} layers × {model.heads} heads, "
        f"{shortest(model.parameters / 1e6)} million parameters) on the {pairs.n_pairs:,} pairs of "
        f"{pairs.n_queries:,} queries of {pairs.name}: {en}.",
    )


def _shown(evaluation: EvaluationResult) -> Iterator[Text]:
    for name, words in _SHARES.items():
        if (value := _value(evaluation, name)) is not None:
            yield Text(f"{words.zh} {value:.1%}", f"{words.en} {value:.1%}")
    for name in _FIGURES:
        if (value := _value(evaluation, name)) is not None:
            title = HEADLINES[name]
            yield Text(f"{title.zh} {number(value)}", f"{title.en} {number(value)}")


def _value(evaluation: EvaluationResult, name: str) -> float | None:
    metric = evaluation.metrics.get(name)
    return None if metric is None else metric.value
