"""The redundancy study as a probe's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from qt_bert.ablation.importance import Agreement, agreement
from qt_bert.ablation.masks import MODES
from qt_bert.codec import encode
from qt_bert.probes.base import Context
from qt_bert.probes.claims import POINT
from qt_bert.probes.naming import known_stability
from qt_bert.probes.redundancy.averages import steps_of
from qt_bert.probes.redundancy.claims import findings, within
from qt_bert.probes.redundancy.figures import figures
from qt_bert.probes.redundancy.harm import (
    candidates,
    confirmed,
    known_of,
    least_queries,
    stable_harm,
)
from qt_bert.probes.redundancy.study import Study, Sweep, named
from qt_bert.probes.redundancy.words import of_metric
from qt_bert.probes.split import reference
from qt_bert.results.probe import HeadScores, ProbeResult
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import interval_or_reason
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.text import Text, counted

GOOD_RANKS, GOOD_TOP = 0.7, 0.7
TOP = 10


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    sweep = study.validation
    harming = confirmed(study)
    return ProbeResult(
        probe="redundancy",
        model=context.model_ref,
        pairs=reference(context.files.pairs, sweep.folder.pairs),
        settings=_settings(study, context),
        summary=_summary(study, harming),
        findings=tuple(findings(study, context.seed)),
        heads=_heads(study, harming),
        sets={"harmful_candidates": tuple(candidates(study)), "harmful": tuple(harming)},
        stability=known_stability(
            harmful_candidates=stable_harm(study, candidates(study), context.seed),
            harmful=stable_harm(study, harming, context.seed),
        ),
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
        return None if not values or np.isnan(found).any() else np.abs(found)

    raw = np.array([study.importance.raw[head] for head in study.shape.all_heads])
    wanted = {"kl": exact("kl", "value"), sweep.metric: exact(sweep.metric, "absolute")}
    return {
        name: agreement(raw, effects) for name, effects in wanted.items() if effects is not None
    }


def _settings(study: Study, context: Context) -> dict[str, Any]:
    sweep, discovery = study.validation, context.files.discovery or context.files.pairs
    return {
        "metric": sweep.metric,
        "variants": len(sweep.folder.variants),
        "draws": {
            family: {f"{share:g}%": len(rows) for share, rows in steps_of(sweep, family).items()}
            for family in ("random", "low", "high")
        },
        "discovery": encode(reference(discovery, study.discovery.folder.pairs)),
        "mean_contexts": {"sha256": study.means.sha256, "pairs": len(context.reference_pairs)},
        "importance_ranks": {
            name: {"spearman": one.spearman} | {f"top_{t.k}": t.shared for t in one.top}
            for name, one in _agreements(study).items()
        },
        "resolution": _resolution(study),
    }


def _resolution(study: Study) -> dict[str, str]:
    """The smallest effects that could have been seen: of one head, and of a mean."""
    sweep = study.validation
    queries = least_queries(study)
    points = 100 * queries / len(sweep.folder.pairs)
    mean = (sweep.resampled(sweep.by_family["single"]) / POINT).mean(axis=0)
    low, high, _ = interval_or_reason(mean, sweep.n_queries)
    half = None if low is None or high is None else (high - low) / 2
    zh = f"要说出单独一个头的作用，至少要有 {queries} 个查询同向变化（约 {points:.0f} 个百分点）"
    en = f"To name one head, at least {queries} queries must move one way (about {points:.0f} points)"
    if half is None:
        return {"zh": f"{zh}。", "en": f"{en}."}
    return {
        "zh": f"{zh}；对所有头的平均，区间半宽为 {half:.1f} 个百分点。",
        "en": f"{en}; for the mean over single heads the interval is ± {half:.1f} points.",
    }


def _summary(study: Study, harming: list[str]) -> Text:
    sweep, metric = study.validation, study.validation.metric_name
    changes = sweep.change(map(sweep.name, sweep.by_family["single"])) / POINT
    q = _single(sweep, sweep.metric, "q").values()
    certain = sum(one is not None and one < FALSE_DISCOVERY_RATE for one in q)
    near = int(within(changes).sum())
    harm, ranks = _harm(study, harming), _stand_in(study)
    return Text(
        f"{changes.size} 个头中，单独去掉后{metric.zh}变化在 ±1 个百分点以内的有 {near} 个，显著的"
        f"（q < 0.05）有 {certain} 个。{harm.zh}{ranks.zh}",
        f"Left out alone, {near} of {changes.size} heads cost or gain at most 1 point of "
        f"{of_metric(metric)}; significant (q < 0.05): {certain}. {harm.en} {ranks.en}".rstrip(),
    )


def _harm(study: Study, harming: list[str]) -> Text:
    """The heads confirmed to harm, with what else is known of them."""
    if not harming:
        tried = len(candidates(study))
        return Text(
            f"没有证实有害的头（发现集上的候选 {tried} 个）。",
            f"No head is confirmed to harm ({counted(tried, 'candidate')} on discovery).",
        )
    facts = {head: known_of(study, head) for head in harming}
    listed = [
        f"{head} (+{there:.1f} / +{here:.1f}, #{rank})"
        for head, (there, here, rank) in facts.items()
    ]
    return Text(
        "证实有害的头（发现集与验证集上去掉后的提高，及梯度重要性的名次）："
        + "、".join(listed)
        + "。",
        "Heads confirmed to harm (gain on discovery and validation, rank of importance): "
        + ", ".join(listed)
        + ".",
    )


def _stand_in(study: Study) -> Text:
    """When the cheap importance may stand for the exact effect."""
    found = _agreements(study)
    name = "kl" if "kl" in found else study.validation.metric
    one = found.get(name)
    if one is None or one.spearman is None or not one.top:
        return Text("", "")
    top = max((t for t in one.top if t.k <= TOP), key=lambda t: t.k, default=one.top[0])
    good = one.spearman >= GOOD_RANKS and top.shared >= GOOD_TOP
    figures = f"ρ = {one.spearman:.2f}"
    zh = "可以代替逐头去除来排序" if good else "只能用来粗筛，不能代替逐头去除"
    en = (
        "may stand in for the sweep when ranking heads" if good else "is a first sieve, no stand-in"
    )
    exact = {"kl": Text(" KL 散度", "KL divergence")}.get(name, study.validation.metric_name)
    return Text(
        f"梯度重要性与去掉该头后的{exact.zh}的秩相关 {figures}，前 {top.k} 个头中有 {top.shared:.0%} 相同"
        f"（随机为 {top.chance:.0%}）：这里{zh}。",
        f"Gradient importance ranks them as {exact.en} does with {figures} and shares "
        f"{top.shared:.0%} of the top {top.k} (chance {top.chance:.0%}): here it {en}.",
    )
