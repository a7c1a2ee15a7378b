"""The redundancy study as a probe's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from qt_bert.ablation.importance import Agreement, agreement
from qt_bert.ablation.masks import MODES
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.redundant.averages import POINT
from qt_bert.probes.redundant.claims import candidates, confirmed, findings
from qt_bert.probes.redundant.figures import figures
from qt_bert.probes.redundant.study import Study, Sweep, named
from qt_bert.probes.split import reference
from qt_bert.results import HeadScores, ProbeResult, Text

GOOD_RANKS, GOOD_TOP = 0.7, 0.7
TOP = 10


def result(study: Study, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    sweep = study.validation
    harming = confirmed(study)
    return ProbeResult(
        probe="redundancy",
        model=context.model_ref,
        pairs=reference(context.files.pairs, sweep.folder.pairs),
        settings=_settings(study),
        summary=_summary(study, harming),
        findings=tuple(findings(study, context.seed)),
        heads=_heads(study, harming),
        sets={"harmful_candidates": tuple(candidates(study)), "harmful": tuple(harming)},
        figures=figures(study, context.seed, full=context.full),
    )


def _single(sweep: Sweep, metric: str, column: str, mode: str = "zero") -> dict[str, float | None]:
    """Head → one column of its effect on one metric; empty where that was not measured."""
    names = [sweep.name(row) for row in sweep.by_family.get(named("single", mode), ())]
    return {
        name.rpartition(":")[2]: getattr(sweep.rows[name, metric], column)
        for name in names
        if (name, metric) in sweep.rows
    }


def _heads(study: Study, harming: list[str]) -> tuple[HeadScores, ...]:
    sweep, metric = study.validation, study.validation.metric
    columns: dict[str, Mapping[str, float | None]] = {
        "change": _single(sweep, metric, "absolute"),
        "ci_low": _single(sweep, metric, "ci_low"),
        "ci_high": _single(sweep, metric, "ci_high"),
        "relative": _single(sweep, metric, "relative"),
        "p": _single(sweep, metric, "p"),
        "q": _single(sweep, metric, "q"),
        "qwk_change": _single(sweep, "qwk", "absolute"),
        "kl": _single(sweep, "kl", "value"),
        "discovery_change": _single(study.discovery, metric, "absolute"),
        "discovery_q": _single(study.discovery, metric, "q"),
    }
    for mode in MODES[1:]:
        columns[f"change_{mode}"] = _single(sweep, metric, "absolute", mode)
    raw, normalised = study.importance.raw, study.importance.normalised
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: column[str(head)] for name, column in columns.items() if column}
            | {"importance": float(raw[head]), "importance_in_layer": float(normalised[head])},
            selected=str(head) in harming,
        )
        for head in study.shape.all_heads
    )


def _agreements(study: Study) -> dict[str, Agreement]:
    """How gradient importance ranks the heads beside exact effects."""
    sweep = study.validation

    def exact(metric: str, column: str) -> FloatArray | None:
        values = _single(sweep, metric, column)
        found = np.array(list(values.values()), np.float64)
        return None if not values or np.isnan(found).any() else np.abs(found).reshape(study.shape)

    wanted = {"kl": exact("kl", "value"), sweep.metric: exact(sweep.metric, "absolute")}
    return {
        name: agreement(study.importance.raw, effects)
        for name, effects in wanted.items()
        if effects is not None
    }


def _settings(study: Study) -> dict[str, Any]:
    sweep = study.validation
    rows = [sweep.rows[sweep.name(row), sweep.metric] for row in sweep.by_family["single"]]
    widths = [r.ci_high - r.ci_low for r in rows if r.ci_high is not None and r.ci_low is not None]
    half = float(np.median(widths)) / 2 / POINT if widths else float("nan")
    return {
        "metric": sweep.metric,
        "draws": study.draws,
        "variants": len(sweep.folder.variants),
        "discovery_pairs": len(study.discovery.folder.pairs),
        "mean_contexts": study.means.sha256,
        "importance_ranks": {
            name: {"spearman": one.spearman} | {f"top_{t.k}": t.shared for t in one.top}
            for name, one in _agreements(study).items()
        },
        "resolution": {
            "zh": f"单个头的区间半宽的中位数为 {half:.1f} 个百分点，更小的变化看不出来。",
            "en": f"The median half-width of a single head's interval is {half:.1f} points; "
            "less than that could not be seen.",
        }
        if widths
        else None,
    }


def _summary(study: Study, harming: list[str]) -> Text:
    sweep = study.validation
    changes = sweep.change(map(sweep.name, sweep.by_family["single"])) / POINT
    q = _single(sweep, sweep.metric, "q").values()
    certain = sum(one is not None and one < 0.05 for one in q)
    near = int((np.abs(changes) <= 1).sum())
    zh, en = _stand_in(study)
    return Text(
        f"{changes.size} 个头中，单独去掉后变化在 ±1 个百分点以内的有 {near} 个，显著的（q < 0.05）有 "
        f"{certain} 个；证实有害的有 {len(harming)} 个。{zh}",
        f"Of {changes.size} heads, {near} change accuracy by at most 1 point when left out alone; "
        f"{certain} do so significantly (q < 0.05); {len(harming)} are confirmed to harm. {en}",
    )


def _stand_in(study: Study) -> tuple[str, str]:
    """When the cheap importance may stand for the exact effect."""
    found = _agreements(study).get("kl")
    top = {one.k: one for one in found.top}.get(TOP) if found else None
    if found is None or found.spearman is None or top is None:
        return "", ""
    good = found.spearman >= GOOD_RANKS and top.shared >= GOOD_TOP
    figures = f"ρ = {found.spearman:.2f}"
    zh = "可以代替逐头去除来排序" if good else "只能用来粗筛，不能代替逐头去除"
    en = (
        "may stand in for the sweep when ranking heads" if good else "is a first sieve, no stand-in"
    )
    return (
        f"梯度重要性与去掉该头后的 KL 的秩相关 {figures}，前 {TOP} 个头中有 {top.shared:.0%} 相同"
        f"（随机为 {top.chance:.0%}）：这里{zh}。",
        f"Gradient importance ranks them by KL with {figures} and shares {top.shared:.0%} of the "
        f"top {TOP} (chance {top.chance:.0%}): here it {en}.",
    )
