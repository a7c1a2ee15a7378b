"""The study of matching heads as a probe's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.split import reference
from qt_bert.probes.term_matching.beside import PERCENT
from qt_bert.probes.term_matching.cells import DIRECTIONS
from qt_bert.probes.term_matching.claims import findings, lost
from qt_bert.probes.term_matching.figures import SHOWN_KINDS, figures
from qt_bert.probes.term_matching.head_scores import LEAST_SCORE, Scores
from qt_bert.probes.term_matching.study import Study
from qt_bert.probes.term_matching.words import DIRECTION_NAMES, finite, measure
from qt_bert.results import HeadScores, ProbeResult, Text

COMES_BACK_RESAMPLES = 200


def result(study: Study, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    return ProbeResult(
        probe="matching",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.pairs),
        settings=_settings(study, context),
        summary=_summary(study),
        findings=tuple(findings(study, resamples=context.resamples, seed=context.seed)),
        heads=_heads(study),
        sets={name: tuple(map(str, heads)) for name, heads in _sets(study).items()},
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


def _heads(study: Study) -> tuple[HeadScores, ...]:
    scores, chosen = study.discovery, set(study.chosen)
    tested, ratios = scores.tested, {name: scores.ratio(k) for name, k in SHOWN_KINDS.items()}
    validation = study.validation.ratio()

    def of(head: Head) -> dict[str, float | None]:
        return {
            "score": finite(scores.score[head]),
            **{name: finite(ratios["characters"][(*head, n)]) for n, name in enumerate(DIRECTIONS)},
            "validation": finite(scores.of_head(validation, head)),
            "p": finite(scores.of_head(tested.p, head)),
            "q": finite(scores.of_head(tested.q, head)),
            "weight": finite(scores.of_head(scores.weight, head)),
            "diagonal": finite(scores.of_head(scores.diagonal, head)),
            **{
                name: finite(scores.of_head(values, head))
                for name, values in ratios.items()
                if name != "characters"
            },
        }

    return tuple(
        HeadScores(head=str(head), scores=of(head), selected=head in chosen)
        for head in study.shape.all_heads
    )


def _settings(study: Study, context: ProbeContext) -> dict[str, Any]:
    return {
        "metric": study.changes.metric if study.changes else None,
        "least_score": LEAST_SCORE,
        "draws": asdict(study.draws),
        "variants": len(study.changes.folder.variants) if study.changes else 0,
        "scored": {
            "discovery": asdict(study.discovery.sample),
            "validation": asdict(study.validation.sample),
        },
        "directions": {
            str(head): DIRECTIONS[study.discovery.direction[head]] for head in study.chosen
        },
        "comes_back": _comes_back(study.discovery, _sets(study), context.seed),
        "resolution": _resolution(study),
    }


def _comes_back(
    scores: Scores, sets: Mapping[str, Sequence[Head]], seed: int
) -> dict[str, dict[str, float]]:
    found = {
        name: scores.comes_back(sets[name], resamples=COMES_BACK_RESAMPLES, seed=seed)
        for name in ("matching", "named")
    }
    return {name: asdict(one) for name, one in found.items() if one is not None}


def _resolution(study: Study) -> dict[str, str] | None:
    ends = None
    if study.contests and study.changes:
        ends = percentile_interval(lost(study.contests, study.changes).samples)
    if ends is None:
        return None
    half = (ends[1] - ends[0]) / 2
    return {
        "zh": f"去掉匹配头的区间半宽为 {half:.1f} 个百分点，更小的差别看不出来。",
        "en": f"The half-width of the interval of the loss is {half:.1f} points; less than that "
        "could not be seen.",
    }


def _summary(study: Study) -> Text:
    if study.contests is None or study.changes is None:
        return Text(
            "没有一对文本有可匹配的字，无法给任何头打分。",
            "No pair has a character to match, so that no head could be scored.",
        )
    changes, out, k = study.changes, study.contests.out, len(study.chosen)
    what, change = measure(changes.metric), changes.of(out.target)
    relative = change.over(changes.base).times(PERCENT).value
    best = study.chosen[0]
    direction = DIRECTION_NAMES[DIRECTIONS[study.discovery.direction[best]]]
    named, score = len(study.discovery.named()), float(study.discovery.score[best])
    share_zh, share_en = ("", "")
    if np.isfinite(relative):
        share_zh, share_en = f"（相对 {relative:+.0f}%）", f" ({relative:+.0f} % of it)"
    means = [changes.mean(controls) for controls in (out.matched, out.free)]
    matched, free = ("—" if one is None else f"{one.value:+.1f}" for one in means)
    return Text(
        f"{named} 个头被认定为匹配头，最强的是 {best}（{direction.zh}，{score:.1f} 倍）。去掉最强的 {k} 个，"
        f"{what.zh}变化 {change.value:+.1f} 个百分点{share_zh}；去掉同层的其他头平均 {matched}，任意的头平均 "
        f"{free}。",
        f"{named} heads are named as matching, the best {best} ({direction.en}, {score:.1f}×). "
        f"Without the best {k}, {what.en} changes by {change.value:+.1f} points{share_en}; without "
        f"as many others of their layers by {matched} on average, without any as many by {free}.",
    )
