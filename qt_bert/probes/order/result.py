"""The study of word order as a probe's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qt_bert.models.heads import Head, names_of
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import described
from qt_bert.probes.matching_scores import discovery_scores, stable_matching
from qt_bert.probes.naming import VALIDATION, Elsewhere, Rule, known_stability, stability
from qt_bert.probes.order.changes import against
from qt_bert.probes.order.claims import findings
from qt_bert.probes.order.figures import figures
from qt_bert.probes.order.grades import grade_label
from qt_bert.probes.order.head_scores import OrderScores
from qt_bert.probes.order.maps import OFFSETS
from qt_bert.probes.order.study import Study
from qt_bert.probes.order.summary import summary
from qt_bert.probes.order.training import trained_on_shuffled
from qt_bert.probes.split import reference
from qt_bert.results.probe import HeadScores, ProbeResult, Stability
from qt_bert.stats.intervals import percentile_interval


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    trained = trained_on_shuffled(context.model.checkpoint.folder)
    return ProbeResult(
        probe="order",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.pairs),
        settings=_settings(study) | {"trained_on_shuffled_titles": trained},
        summary=summary(study, trained),
        findings=tuple(findings(study)),
        heads=_heads(study),
        sets={
            "order": names_of(study.order_heads),
            "order_named": names_of(study.discovery.named().heads()),
            "matching_left_out": names_of(study.matching_heads),
        },
        stability=_stability(study, context),
        figures=figures(study),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    """Scores on validation; p and q are those that heads are named by, on discovery."""
    named = study.discovery.named()
    found = study.validation

    def scores(head: Head) -> dict[str, float | None]:
        values: dict[str, float] = {
            "score": found.score[head],
            "offset": OFFSETS[found.offset[head]] if np.isfinite(found.score[head]) else np.nan,
            "identity": found.identity[head],
            "weight": found.weight[head],
            **{f"lift{d:+d}": found.lift[head][n] for n, d in enumerate(OFFSETS)},
            "discovery_score": study.discovery.score[head],
            "discovery_identity": study.discovery.identity[head],
            "p": named.p[head],
            "q": named.q[head],
        }
        return {name: float(v) if np.isfinite(v) else None for name, v in values.items()}

    return tuple(
        HeadScores(head=str(head), scores=scores(head), selected=head in study.order_heads)
        for head in study.shape.all_heads
    )


def _settings(study: Study) -> dict[str, Any]:
    texts, at = study.texts, study.ends
    ratios = study.sensitivity.values("ratio", range(len(study.variants)))
    return {
        "k": len(study.order_heads),
        "queries": study.sensitivity.n_queries,
        "scored": {split: _sample(getattr(study, split)) for split in ("discovery", "validation")},
        "sensitivity": {
            "high_pairs": texts.count("original"),
            "shuffled_titles": texts.count("shuffled"),
            "low_pairs": texts.count("low"),
            "ineligible": texts.ineligible,
            "shuffles_a_title": study.shuffles,
            "high": [grade_label(one) for one in at.high],
            "low": [grade_label(one) for one in at.low],
            "variants": len(study.variants),
            "without_ratio": int(np.isnan(ratios).sum()),
        },
        "disturbed": {
            "pairs": study.disturbed.pairs,
            "queries": study.disturbed.queries,
            "ineligible": {
                ":".join(w): study.disturbed.ineligible[w] for w in study.disturbed.ways
            },
        },
        "draws": _draws(study),
        "second_seed": described(study.second),
        "resolution": _resolution(study),
    }


def _sample(scores: OrderScores) -> dict[str, float]:
    return {
        "pairs": scores.pairs,
        "queries": scores.n_queries,
        "ineligible": scores.ineligible,
        "maps_compared": scores.compared,
        "coverage": round(scores.coverage, 4),
    }


def _draws(study: Study) -> dict[str, int]:
    claim = study.masks.claim
    drawn = (
        {} if claim is None else {n: len(getattr(claim, n)) for n in ("matched", "free", "loud")}
    )
    return drawn | {"curve": study.draws.curve, "curve_free": study.draws.curve_free}


def _stability(study: Study, context: Context) -> dict[str, Stability]:
    """Of every set; of order heads beside validation and a model of another seed."""
    scored = [(VALIDATION, study.validation)]
    scored += [] if study.second is None else [(study.second.name, study.second.scores)]

    def of(heads: Sequence[Head], rule: Callable[[OrderScores], Rule]) -> Stability | None:
        beside = [Elsewhere(name, rule(one), one.n_queries) for name, one in scored]
        found, n_queries = rule(study.discovery), study.discovery.n_queries
        return stability(found, heads, n_queries, elsewhere=beside, seed=context.seed)

    return known_stability(
        order=of(study.order_heads, lambda scores: scores.rule),
        order_named=of(study.discovery.named().heads(), lambda scores: scores.named_rule),
        matching_left_out=stable_matching(
            discovery_scores(context), study.matching_heads, seed=context.seed
        ),
    )


def _resolution(study: Study) -> dict[str, str] | None:
    found = against(study, "ratio", study.masks.claim, "matched", below=True)
    ends = None if found.samples is None else percentile_interval(found.samples)
    if ends is None:
        return None
    half, n = (ends[1] - ends[0]) / 2, study.sensitivity.n_queries
    plain = float(study.sensitivity.values("ratio", [0])[0])
    no_fall = 0 < plain < half
    return {
        "zh": f"在 {n} 个查询上，不去掉头时 S/R 为 {plain:.2f}，比 {half:.2f} 小的下降看不出来"
        f"{'，即使 S/R 降到 0' if no_fall else ''}。",
        "en": f"On {n} queries the plain S/R is {plain:.2f}; a fall smaller than {half:.2f} cannot be "
        f"seen{', not even one to 0' if no_fall else ''}.",
    }
