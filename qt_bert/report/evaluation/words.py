"""The metrics' names and groups on the page."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TypeVar

from qt_bert.report.blocks import Interval
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.evaluation import MetricValue
from qt_bert.results.text import Label

M = TypeVar("M")

GROUPS: dict[str, tuple[Text, tuple[str, ...]]] = {
    "class": (Text("分类", "Classes"), ("accuracy", "macro_f1")),
    "ordinal": (
        Text("有序等级", "Ordered grades"),
        ("qwk", "mae", "macro_mae", "within_one", "bias", "far_errors"),
    ),
    "ranking": (
        Text("排序", "Ranking"),
        (
            *(f"ndcg_at_{k}" for k in (1, 3, 5, 10)),
            *(f"ndcg_linear_at_{k}" for k in (1, 3, 5, 10)),
            "pnr",
            "pairwise_accuracy",
            "auc",
            "spearman",
        ),
    ),
    "calibration": (Text("概率校准", "Calibration"), ("ece", "brier", "nll")),
}
_OTHER = Text("其他", "Other")

HEADLINES = {
    "accuracy": Text("准确率", "Accuracy"),
    "qwk": Text("QWK（二次加权 κ）", "QWK (weighted κ)"),
    "spearman": Text("Spearman ρ", "Spearman ρ"),
    "ndcg_at_5": Text("NDCG@5", "NDCG@5"),
}
_OF_AN_ORDER = {"pairwise_accuracy": Text("成对准确率", "Pairwise accuracy")}


def headlines(known: Container[str]) -> dict[str, Text]:
    """The headline metrics among the `known` ones, with their names.

    A model that gives an order and no grades is judged by pairwise accuracy in accuracy's place.
    """
    names = HEADLINES if "accuracy" in known else _OF_AN_ORDER | HEADLINES
    return {name: title for name, title in names.items() if name in known}


def with_value(evaluation: EvaluationResult) -> set[str]:
    """The metrics that this evaluation holds a value of."""
    return {name for name, metric in evaluation.metrics.items() if metric.value is not None}


def metric_title(evaluation: EvaluationResult, name: str) -> Label:
    """The metric's display name: the caller's, else ours, else its identifier."""
    described = evaluation.descriptions.get(name)
    if described is not None and described.title is not None:
        return described.title
    return HEADLINES.get(name, name)


def grouped_metrics(evaluation: EvaluationResult) -> list[tuple[Text, str, MetricValue]]:
    """(group, name, value) of every metric there is, in the page's order."""
    return in_groups(evaluation.metrics)


def in_groups(values: Mapping[str, M]) -> list[tuple[Text, str, M]]:
    """(group, name, value) of what is known by metric, in the page's order."""
    known = [(title, name) for title, names in GROUPS.values() for name in names]
    others = [(_OTHER, name) for name in values.keys() - {name for _, name in known}]
    ordered = known + sorted(others, key=lambda pair: pair[1])
    return [(title, name, values[name]) for title, name in ordered if name in values]


def as_interval(metric: MetricValue) -> Interval:
    """The metric's value with its interval."""
    return Interval(value=metric.value, low=metric.ci_low, high=metric.ci_high)


def base(metric: MetricValue) -> Text:
    """What the value rests on: pairs, and eligible queries where it ranks titles."""
    if metric.value is None and metric.reason:
        return Text(f"无：{metric.reason}", f"none: {metric.reason}")
    zh, en = [], []
    if metric.n is not None:
        zh.append(f"{metric.n:,} 对")
        en.append(f"{metric.n:,} pairs")
    if metric.n_eligible is not None and metric.n_queries is not None:
        zh.append(f"{metric.n_eligible:,}/{metric.n_queries:,} 个查询可评")
        en.append(f"{metric.n_eligible:,}/{metric.n_queries:,} queries eligible")
    return Text(" · ".join(zh), " · ".join(en))
