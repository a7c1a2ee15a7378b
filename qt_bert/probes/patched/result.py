"""The study of patches as a probe's result."""

from __future__ import annotations

from typing import Any

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.common.maps import known
from qt_bert.probes.common.stability import VALIDATION, Elsewhere, by_mean, known_stability
from qt_bert.probes.common.stability import stability as stability_of
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched.chosen import LEAST_SHARE, Chosen, placed
from qt_bert.probes.patched.claims import findings, gap_unit, restored
from qt_bert.probes.patched.figures import figures
from qt_bert.probes.patched.scatter import only_one
from qt_bert.probes.patched.study import Study
from qt_bert.probes.patched.summary import summary
from qt_bert.probes.patched.words import QUICK, SCORE
from qt_bert.probes.split import reference
from qt_bert.results import HeadScores, ProbeResult
from qt_bert.results.stability import Stability


def result(study: Study, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    return ProbeResult(
        probe="patch",
        model=context.model_ref,
        pairs=reference(context.files.pairs, [twin.pair for twin in study.seen.made.twins]),
        settings=_settings(study, context),
        summary=summary(study, context),
        findings=tuple(findings(study, context)),
        heads=_heads(study),
        sets=_sets(study),
        stability=_stability(study),
        figures=figures(study),
    )


def _sets(study: Study) -> dict[str, tuple[str, ...]]:
    found = {"patch_matching": study.asked.heads}
    if study.choice is not None:
        patched, absent = only_one(study.choice)
        found |= {
            "restoring": tuple(study.choice.restoring.heads),
            "gap_left_out": tuple(study.choice.left_out.heads),
            "restoring_only": tuple(patched),
            "gap_left_out_only": tuple(absent),
        }
    return {name: tuple(map(str, heads)) for name, heads in found.items()}


def _heads(study: Study) -> tuple[HeadScores, ...]:
    """Shares on validation; p and q are those of discovery."""
    each, plan, choice = study.each, study.plan, study.choice
    restoring = each.restoring(plan.singles)
    ends = [one or (np.nan, np.nan) for one in restoring.intervals()]
    columns: dict[str, FloatArray] = {
        "restoring": restoring.values,
        "restoring_low": np.array([low for low, _ in ends]),
        "restoring_high": np.array([high for _, high in ends]),
    }
    if plan.left_out:
        columns["breaking"] = each.breaking(plan.singles).values
        columns["left_out"] = each.closing(plan.left_out).values
    if choice is not None:
        for name, one in (("", choice.restoring), ("left_out_", choice.left_out)):
            columns |= {
                f"{name}discovery": one.values,
                f"{name}p": one.p,
                f"{name}q": one.q,
            }
    named = set(choice.restoring.heads) if choice else set()
    return tuple(
        HeadScores(
            head=str(variant.heads[0]),
            scores={name: known(values[row]) for name, values in columns.items()},
            selected=variant.heads[0] in named,
        )
        for row, variant in enumerate(plan.singles)
    )


def _stability(study: Study) -> dict[str, Stability]:
    """How much of what discovery names comes back there, and on validation."""
    choice, each, plan = study.choice, study.each, study.plan
    if choice is None:
        return {}
    moves = {
        "restoring": (choice.restoring, each.outcomes.restoring(plan.singles)),
        "gap_left_out": (choice.left_out, each.outcomes.closing(plan.left_out)),
    }

    def of(chosen: Chosen, validated: FloatArray) -> Stability | None:
        again = by_mean(placed(study.shape, each.gap.towards(validated)))
        return stability_of(
            by_mean(chosen.per_query),
            chosen.heads,
            len(chosen.per_query),
            elsewhere=[Elsewhere(VALIDATION, again, each.gap.n_queries)],
            seed=study.seed,
        )

    return known_stability(**{name: of(*both) for name, both in moves.items()})


def _settings(study: Study, context: ProbeContext) -> dict[str, Any]:
    gap, choice, one_logit = study.seen.gap, study.choice, gap_unit(context) == SCORE
    masked = None if study.masked is None else known(study.masked.gap.mean.value)
    return {
        "heads": {
            "matching": [str(head) for head in study.asked.heads],
            "named": study.asked.named,
            "source": study.asked.source,
        },
        "layer_matched_draws": len(study.plan.contest.matched),
        "one_by_one": {"pairs": len(study.each.made.twins), "queries": study.each.gap.n_queries},
        "twins": {
            "validation": study.seen.made.describe(),
            "discovery": None if choice is None else choice.made.describe(),
        },
        "gap": {
            "mean": known(gap.mean.value),
            "known": gap.known,
            "pairs_under_0.05": None if one_logit else gap.small,
            "pairs_under_0": gap.negative,
            "mean_with_mask": masked,
        },
        "least_share": LEAST_SHARE,
        "shortened": None if context.full else {"zh": QUICK.zh, "en": QUICK.en},
        "resolution": _resolution(study),
    }


def _resolution(study: Study) -> dict[str, str] | None:
    ends = percentile_interval(restored(study).difference.samples)
    if ends is None:
        return None
    half, draws = 100 * (ends[1] - ends[0]) / 2, len(study.plan.contest.matched)
    least = 1 / (1 + draws)
    return {
        "zh": f"与同层其他头之差小于缺口的 {half:.1f} % 看不出来；{draws} 组对照，p 不会小于 {least:.3f}。",
        "en": f"A surplus under {half:.1f} % of the gap could not be seen; with "
        f"{draws} sets p cannot fall below {least:.3f}.",
    }
