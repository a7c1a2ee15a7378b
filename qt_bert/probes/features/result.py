"""What heads look at, as a probe's result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from qt_bert.codec import encode
from qt_bert.models.heads import names_of
from qt_bert.probes.base import Context
from qt_bert.probes.display import known
from qt_bert.probes.features import words
from qt_bert.probes.features.claims import findings
from qt_bert.probes.features.figures import figures, kinds_of
from qt_bert.probes.features.looking import Looking
from qt_bert.probes.features.measures import empty_heads, known_mean
from qt_bert.probes.features.study import LEAST_LIFT, Part, Study, by_lift
from qt_bert.probes.features.summary import NO_BASE, NO_TREEBANK, summary
from qt_bert.probes.naming import VALIDATION, Elsewhere, known_stability, means, stability
from qt_bert.results.probe import Finding, HeadScores, ProbeResult, Stability
from qt_bert.stats.arrays import FloatArray


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    found = findings(study, context)
    queries = study.pairs.validation.queries
    over_half = empty_heads(study.pairs.validation, study.shape)
    return ProbeResult(
        probe="features",
        model=context.model_ref,
        pairs=replace(context.pairs_ref, n_pairs=len(queries), n_queries=len(set(queries))),
        settings=_settings(study, found, context),
        summary=summary(study),
        findings=tuple(found),
        heads=_heads(study),
        sets={
            **{
                f"{kind}_{name}": names_of(one.heads())
                for name, part in study.parts.items()
                for kind, one in part.named.items()
            },
            "over_half": names_of(over_half),
        },
        stability=known_stability(
            **{
                f"{kind}_{name}": one
                for name, part in study.parts.items()
                for kind, one in _stability(part, study, context).items()
            }
        ),
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    columns: dict[str, FloatArray] = {}
    for name, part in study.parts.items():
        seen = part.validation
        for kind in kinds_of(seen):
            columns[f"{kind}_{name}"] = means(seen.of(kind))
            columns[f"{kind}_{name}_lift"] = seen.lift(kind)
            if seen.before is not None:
                columns[f"{kind}_{name}_before"] = means(seen.of(kind, "before"))
        for kind, one in part.named.items():
            columns[f"{kind}_{name}_q"] = one.q
    chosen = {
        head for part in study.parts.values() for one in part.named.values() for head in one.heads()
    }
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(column[head]) for name, column in columns.items()},
            selected=head in chosen,
        )
        for head in study.shape.all_heads
    )


def _settings(study: Study, found: Sequence[Finding], context: Context) -> dict[str, Any]:
    base = study.base
    return {
        "base": encode(NO_BASE) if base is None else {"name": base.name, "sha256": base.sha256},
        "treebank": encode(NO_TREEBANK)
        if study.treebank is None
        else [path.name for path in context.treebanks],
        "rows": "all tokens, special ones too",
        "sample": {
            name: {half: _sample(getattr(part, half)) for half in ("discovery", "validation")}
            for name, part in study.parts.items()
        },
        "least_lift": LEAST_LIFT,
        "resolution": _resolution(found),
    }


def _sample(seen: Looking) -> dict[str, Any]:
    return {
        "reads": len(seen.queries),
        "queries": len(set(seen.queries)),
        "share_of_tokens": {kind: round(known_mean(seen.rate(kind)), 4) for kind in kinds_of(seen)},
    }


def _stability(part: Part, study: Study, context: Context) -> dict[str, Stability | None]:
    """Of the heads named for each kind, beside validation."""
    seen, again = part.discovery, part.validation
    return {
        kind: stability(
            by_lift(seen, kind),
            one.heads(),
            len(set(seen.queries)),
            pool=study.shape.all_heads,
            elsewhere=[Elsewhere(VALIDATION, by_lift(again, kind), len(set(again.queries)))],
            seed=context.seed,
        )
        for kind, one in part.named.items()
    }


def _resolution(found: Sequence[Finding]) -> dict[str, str]:
    """Half the widest interval of the claims in points of attention: less could not be seen."""
    halves = [
        (one.ci_high - one.ci_low) / 2
        for one in found
        if one.primary
        and one.unit == words.POINTS
        and one.ci_low is not None
        and one.ci_high is not None
    ]
    least = f"{max(halves):.2g}" if halves else "–"
    return {
        "zh": f"小于 {least} 个百分点注意力的差别看不出来。",
        "en": f"Differences under {least} points of attention could not be seen.",
    }
