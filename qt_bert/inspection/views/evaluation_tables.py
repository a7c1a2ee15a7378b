"""An evaluation's figures and tables, as the page lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qt_bert.encoder import ModelLabels
from qt_bert.encoder.heads import Head, spell
from qt_bert.evaluation import METRICS, Evaluation
from qt_bert.evaluation.comparison import Difference
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.views.evaluation import Measured, PairRow
from qt_bert.inspection.views.evaluation_words import reason
from qt_bert.inspection.views.graded_file import GradedFile
from qt_bert.inspection.views.units import score_name
from qt_bert.results import Curve, HeatMap, Text
from qt_bert.results.evaluation import ReliabilityBin
from qt_bert.results.evaluation_figures import confusion_map, reliability_curve
from qt_bert.results.metric_names import metric_name
from qt_bert.results.numbers import clip

Cell = str | int | float | Text | None
Rows = list[dict[str, Cell]]
"""Rows of a table: key of a column → the cell."""

_HEADS_NAMED = 8
_TEXT_SHOWN = 200

GROUPS = {
    "class": Text("分类", "classes"),
    "ordinal": Text("有序等级", "ordered grades"),
    "ranking": Text("排序", "ranking"),
    "calibration": Text("概率校准", "calibration"),
}
HEADLINES = ("accuracy", "qwk", "spearman", "ndcg_at_5")
BETTER = {"higher": "↑", "lower": "↓", "zero": "→ 0"}
COLUMNS = {
    "group": Text("类别", "group"),
    "metric": Text("指标", "metric"),
    "value": Text("值", "value"),
    "plain": Text("完整模型", "whole model"),
    "without": Text("去掉头", "heads left out"),
    "difference": Text("差", "difference"),
    "low": Text("95% 下限", "95 % low"),
    "high": Text("95% 上限", "95 % high"),
    "p": Text("p 值", "p"),
    "better": Text("方向", "better"),
    "pairs": Text("对数", "pairs"),
    "queries": Text("可评查询", "eligible queries"),
    "why": Text("无值或无区间的原因", "why there is no value or interval"),
    "level": Text("等级", "level"),
    "precision": Text("精确率（0–1）", "precision (0–1)"),
    "recall": Text("召回率（0–1）", "recall (0–1)"),
    "f1": Text("F1（0–1）", "F1 (0–1)"),
    "support": Text("标注为它的对", "pairs labelled so"),
    "predicted": Text("判为它的对", "pairs graded so"),
}
"""The tables' columns in words."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A metric that stays in view: value, interval, what it rests on, and the change without heads."""

    title: Text
    value: float
    low: float | None
    high: float | None
    change: float | None
    base: Text


def headline(measured: Measured) -> list[Headline]:
    """The few metrics that stay in view, as far as they are defined."""
    found = []
    for name in HEADLINES:
        one = measured.plain.metrics[name]
        if one.value is None:
            continue
        changed = (measured.differences or {}).get(name)
        found.append(
            Headline(
                title=metric_name(name),
                value=one.value,
                low=one.ci_low,
                high=one.ci_high,
                change=changed.difference if changed else None,
                base=_base(name, one.n, _queries(one.n_eligible, one.n_queries)),
            )
        )
    return found


def about(inspected: Inspected, file: GradedFile, out: Sequence[Head], mode: str) -> Text:
    """Which model was evaluated on what, and which heads were left out beside."""
    name, pairs = inspected.name, f"{len(file.pairs):,}"
    zh, en = f"{name} · {file.name} · {pairs} 对", f"{name} · {file.name} · {pairs} pairs"
    if not out:
        return Text(zh, en)
    heads = spell(out) if len(out) <= _HEADS_NAMED else f"{spell(out[:_HEADS_NAMED])} …"
    return Text(
        f"{zh} · 去掉 {len(out)} 个头：{heads}（{mode}）",
        f"{en} · without {len(out)} heads: {heads} ({mode})",
    )


def metric_rows(evaluation: Evaluation) -> Rows:
    """Every metric with its interval and its base; one without a value says why."""
    return [
        {
            "group": GROUPS[METRICS[name].needs],
            "metric": metric_name(name),
            "value": one.value,
            "low": one.ci_low,
            "high": one.ci_high,
            "better": BETTER[METRICS[name].direction],
            "pairs": one.n,
            "queries": _queries(one.n_eligible, one.n_queries),
            "why": reason(one.reason),
        }
        for name, one in evaluation.metrics.items()
    ]


def difference_rows(differences: dict[str, Difference]) -> Rows:
    """Every metric by the whole model and without the heads, the paired difference and its test."""
    return [
        {
            "group": GROUPS[METRICS[name].needs],
            "metric": metric_name(name),
            "plain": one.value_a,
            "without": one.value_b,
            "difference": one.difference,
            "low": one.ci_low,
            "high": one.ci_high,
            "p": one.p,
            "better": BETTER[METRICS[name].direction],
            "pairs": one.n,
            "why": reason(one.reason),
        }
        for name, one in differences.items()
    ]


def level_rows(evaluation: Evaluation) -> Rows:
    """Precision, recall and F1 of every level; nothing where there are no levels."""
    names = ("level", "precision", "recall", "f1", "support", "predicted")
    return [{name: row[name] for name in names} for row in evaluation.per_grade or ()]


def pair_columns(labels: ModelLabels) -> dict[str, Text]:
    """The columns of a table of pairs."""
    score = score_name(labels)
    return {
        "line": Text("行", "line"),
        "query": Text("查询", "query"),
        "title": Text("标题", "title"),
        "label": Text("标注", "label"),
        "predicted": Text("预测", "predicted"),
        "score": score,
        "without": Text(f"{score.zh}，去掉头", f"{score.en}, heads left out"),
        "change": Text("变化", "change"),
    }


def pair_rows(pairs: Sequence[PairRow]) -> Rows:
    """Pairs as rows of a table."""
    return [
        {
            "line": one.line,
            "query": clip(one.query, _TEXT_SHOWN),
            "title": clip(one.title, _TEXT_SHOWN),
            "label": one.label,
            "predicted": one.predicted,
            "score": one.score,
            "without": one.score_without,
            "change": None if one.score_without is None else one.score_without - one.score,
        }
        for one in pairs
    ]


def figures(evaluation: Evaluation) -> tuple[HeatMap | Curve, ...]:
    """Confusion and reliability, as far as they are defined."""
    found: list[HeatMap | Curve] = []
    if evaluation.confusion is not None:
        found.append(confusion_map(evaluation.levels, evaluation.confusion))
    if evaluation.reliability is not None:
        curve = reliability_curve(_bins(evaluation.reliability))
        found += [] if curve is None else [curve]
    return tuple(found)


def _bins(rows: Sequence[dict[str, Any]]) -> list[ReliabilityBin]:
    return [
        ReliabilityBin(
            confidence=row["confidence"], accuracy=row["accuracy"], count=int(row["count"] or 0)
        )
        for row in rows
    ]


def _base(name: str, pairs: int, queries: str | None) -> Text:
    """What a metric means, and what its value rests on."""
    zh, en = METRICS[name].description
    if queries is None:
        return Text(f"{zh}{pairs:,} 对。", f"{en} {pairs:,} pairs.")
    return Text(
        f"{zh}{pairs:,} 对，可评查询 {queries}。",
        f"{en} {pairs:,} pairs, eligible queries {queries}.",
    )


def _queries(eligible: int | None, queries: int | None) -> str | None:
    return None if queries is None else f"{eligible:,}/{queries:,}"
