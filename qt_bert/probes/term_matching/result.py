"""The study of matching heads as a probe's result."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.evaluation.labels import name_set
from qt_bert.probes.common.base import sample
from qt_bert.probes.common.maps import known
from qt_bert.probes.common.other_seed import described
from qt_bert.probes.common.stability import VALIDATION, known_stability
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.split import reference
from qt_bert.probes.term_matching.beside import PERCENT
from qt_bert.probes.term_matching.cells import DIRECTIONS
from qt_bert.probes.term_matching.changes import Changes
from qt_bert.probes.term_matching.claims import findings, lost
from qt_bert.probes.term_matching.figures import SHOWN_KINDS, figures
from qt_bert.probes.term_matching.head_scores import LEAST_QUERIES, LEAST_SCORE, along
from qt_bert.probes.term_matching.stable import stable_matching
from qt_bert.probes.term_matching.study import Contests, Study, low_half_of
from qt_bert.probes.term_matching.words import DIRECTION_NAMES, measure
from qt_bert.results import HeadScores, ProbeResult, Text
from qt_bert.results.stability import Stability


def result(study: Study, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    return ProbeResult(
        probe="matching",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.pairs),
        settings=_settings(study, context),
        summary=_summary(study),
        findings=tuple(findings(study, context)),
        heads=_heads(study),
        sets={name: tuple(map(str, heads)) for name, heads in _sets(study).items()},
        stability=_stability(study, context.seed),
        figures=figures(study),
    )


def _sets(study: Study) -> dict[str, list[Head]]:
    """Those left out, those kept in the low half, and the named heads, all and by direction."""
    scores = study.discovery
    named = scores.named()
    by_direction = {
        f"named_{name}": [head for head in named if scores.direction[head] == number]
        for number, name in enumerate(DIRECTIONS)
    }
    return {"matching": study.chosen, "low_half": study.low, "named": named, **by_direction}


def _stability(study: Study, seed: int) -> dict[str, Stability]:
    """Of every set, beside validation and a model of another seed."""
    elsewhere = {VALIDATION: study.validation}
    if study.second is not None:
        elsewhere[study.second.name] = study.second.scores
    by_direction = {f"named_{name}": number for number, name in enumerate(DIRECTIONS)}
    return known_stability(
        **{
            name: stable_matching(
                study.discovery,
                heads,
                seed=seed,
                direction=by_direction.get(name),
                within=low_half_of(study.shape) if name == "low_half" else None,
                elsewhere=elsewhere,
            )
            for name, heads in _sets(study).items()
        }
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    """Scores on validation, in the direction of discovery; p and q are those of discovery."""
    found, chosen = study.discovery, set(study.chosen)
    columns = {
        "score": study.score,
        "discovery_score": found.score,
        **{name: study.validation.ratio()[..., n] for n, name in enumerate(DIRECTIONS)},
        "p": found.tested.p,
        "q": found.tested.q,
        "weight": along(found.direction, study.validation.weight),
        "diagonal": along(found.direction, study.validation.diagonal),
    }
    for name, kind in SHOWN_KINDS.items():
        if name != "characters":
            columns[name] = along(found.direction, study.validation.firm_ratio(kind))
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(values[head]) for name, values in columns.items()},
            selected=head in chosen,
        )
        for head in study.shape.all_heads
    )


def _settings(study: Study, context: ProbeContext) -> dict[str, Any]:
    return {
        "metric": study.changes.metric if study.changes else None,
        "least_score": LEAST_SCORE,
        "draws": asdict(study.draws),
        "shortened": _shortened(study, context),
        "swept": _swept(study),
        "variants": len(study.changes.folder.variants) if study.changes else 0,
        "scored": {
            "discovery": asdict(study.discovery.sample),
            "validation": asdict(study.validation.sample),
        },
        "least_queries": LEAST_QUERIES,
        "queries": {
            name: dict(zip(DIRECTIONS, study.validation.queries(kind).tolist(), strict=True))
            for name, kind in SHOWN_KINDS.items()
        },
        "directions": {
            str(head): DIRECTIONS[study.discovery.direction[head]] for head in study.chosen
        },
        "second_seed": described(study.second),
        "resolution": _resolution(study),
    }


def _swept(study: Study) -> dict[str, Any]:
    """The pairs on which heads were left out."""
    labels = Counter(name_set(pair.grades) for pair in study.pairs if pair.grades)
    return {
        "pairs": len(study.pairs),
        "queries": len({pair.query for pair in study.pairs}),
        "labels": dict(sorted(labels.items())),
    }


def _shortened(study: Study, context: ProbeContext) -> dict[str, str] | None:
    """What the quick profile does with less."""
    if context.full:
        return None
    draws, pairs = study.draws, len(study.pairs)
    zh, en = "各标签轮流抽取", "the labels taking turns"
    if context.model.checkpoint.settings.labels.logits == 1:
        zh, en = "取整个 query 的全部 title", "with all titles of a query"
    return {
        "zh": f"快速模式只在 {pairs} 对上去掉头，{zh}；只留匹配头与隔断的对照各 {draws.beside} 组，曲线每点 "
        f"{draws.curve} 组。随机去掉头的影响只列出，用 --full 才作判断。",
        "en": f"The quick profile leaves heads out on {pairs} pairs, {en}; {draws.beside} draws stand "
        f"beside the heads kept alone and beside the cut, {draws.curve} beside each point of the "
        "curve. What random heads cost is only shown; it is judged under --full.",
    }


def _resolution(study: Study) -> dict[str, str] | None:
    if study.contests is None or study.changes is None:
        return None
    ends = percentile_interval(lost(study.contests, study.changes).samples)
    if ends is None:
        return None
    half, queries = (ends[1] - ends[0]) / 2, study.changes.effects.n_queries
    return {
        "zh": f"去掉匹配头的区间半宽为 {half:.1f} 个百分点（{queries} 个 query），更小的差别看不出来。",
        "en": f"The half-width of the interval of the loss is {half:.1f} points ({queries} "
        "queries); less than that could not be seen.",
    }


def _summary(study: Study) -> Text:
    if study.contests is None or study.changes is None:
        return Text(
            "没有一对文本有可匹配的字，无法给任何头打分。",
            "No pair has a character to match, so that no head could be scored.",
        )
    found, left = _summary_found(study), _summary_left_out(study, study.contests, study.changes)
    return Text(found.zh + left.zh, f"{found.en} {left.en}")


def _summary_found(study: Study) -> Text:
    named, best = study.discovery.named(), study.chosen[0]
    again = sum(bool(study.score[head] >= LEAST_SCORE) for head in named)
    direction = DIRECTION_NAMES[DIRECTIONS[study.discovery.direction[best]]]
    score = known(study.score[best])
    zh, en = ("–", "–") if score is None else (f"{score:.1f} 倍", f"{score:.1f}×")
    return Text(
        f"发现集上认定 {len(named)} 个匹配头，其中 {again} 个在验证集上仍不低于 {LEAST_SCORE:g} 倍。发现集上最强的"
        f"是 {best}（{direction.zh}，验证集上 {zh}）。",
        f"Heads named as matching on discovery: {len(named)}; of these at least {LEAST_SCORE:g}× on "
        f"validation, too: {again}. The best on discovery is {best} ({direction.en}, {en} on "
        "validation).",
    )


def _summary_left_out(study: Study, contests: Contests, changes: Changes) -> Text:
    out, k, what = contests.out, len(study.chosen), measure(changes.metric)
    change = changes.of(out.target)
    relative = change.over(changes.base).times(PERCENT).value
    share_zh, share_en = ("", "")
    if np.isfinite(relative):
        share_zh, share_en = f"（相对 {relative:+.0f}%）", f" ({relative:+.0f} % of it)"
    means = [changes.mean(controls) for controls in (out.matched, out.free)]
    matched, free = ("–" if one is None else f"{one.value:+.1f}" for one in means)
    pairs, queries = len(study.pairs), changes.effects.n_queries
    return Text(
        f"去掉最强的 {k} 个（{pairs} 对、{queries} 个 query），{what.zh}变化 {change.value:+.1f} 个百分点{share_zh}；"
        f"去掉同层的其他头平均 {matched}，任意的头平均 {free}。",
        f"Without the best {k} ({sample(pairs, queries).en}), {what.en} changes by "
        f"{change.value:+.1f} points{share_en}; on average without as many others of their "
        f"layers by {matched}, without as many anywhere by {free}.",
    )
