"""The study of word boundaries as a probe's result."""

from __future__ import annotations

from typing import Any

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.claims import POINT
from qt_bert.probes.common.maps import known
from qt_bert.probes.common.other_seed import described
from qt_bert.probes.common.stability import (
    VALIDATION,
    Elsewhere,
    by_mean,
    known_stability,
    stability,
)
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.word_ends.calibrate import LEAST_BALANCED, balanced_by_query
from qt_bert.probes.word_ends.claims import findings
from qt_bert.probes.word_ends.decisions import Decisions
from qt_bert.probes.word_ends.figures import answers, figures, preferred
from qt_bert.probes.word_ends.judge import MEASURES, counts_of, measured
from qt_bert.probes.word_ends.leaving_out import LeftOut
from qt_bert.probes.word_ends.study import RANDOM_ORDERS, Studies, Study
from qt_bert.probes.word_ends.summary import resolution, summary
from qt_bert.probes.word_ends.union import SHIFTS
from qt_bert.probes.word_ends.words import PRETRAINED
from qt_bert.results import HeadScores, ProbeResult
from qt_bert.results.stability import Stability


def result(found: Studies, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    study = found.main
    drawn = figures(study) if len(study.texts.validation) else ()
    if found.gold is not None and len(found.gold.texts.validation):
        drawn += figures(found.gold, "boundary_gold")
    sets = {
        "boundary": study.graded.calibrated.named.heads(),
        "boundary_vote": list(study.graded.voters),
    }
    return ProbeResult(
        probe="boundary",
        model=context.model_ref,
        pairs=context.pairs_ref,
        settings=_settings(found),
        summary=summary(found),
        findings=tuple(findings(found)),
        heads=_heads(study),
        sets={name: tuple(map(str, heads)) for name, heads in sets.items()},
        stability=known_stability(boundary=_stability(found)),
        figures=drawn,
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    readers, decisions = study.graded, study.texts.validation
    named = readers.calibrated.named
    columns: dict[str, FloatArray] = {
        "discovery_balanced": named.score,
        "null_balanced": readers.calibrated.null,
        "p": named.p,
        "q": named.q,
        "weight_on_text": readers.own,
        "auc": readers.auc,
    }
    columns |= {f"balanced_{name}": both.validation for name, both in readers.granularity.items()}
    for prefix, said in (("", readers.said), ("rule_", readers.by_rule)):
        counts = np.array(
            [[counts_of(one, study.truth, decisions).sum(0) for one in layer] for layer in said]
        )
        columns |= {f"{prefix}{measure}": measured(measure, counts) for measure in MEASURES}
    return tuple(
        HeadScores(
            head=str(Head(*place)),
            scores={name: known(float(column[place])) for name, column in columns.items()},
            selected=bool(named.named[place]),
        )
        for place in np.ndindex(*named.score.shape)
    )


def _settings(found: Studies) -> dict[str, Any]:
    study = found.main
    texts = {"segmenter": _described(study)}
    if found.gold is not None:
        texts["gold"] = _described(found.gold)
    return {
        "least_balanced": LEAST_BALANCED,
        "shifts": study.shifts,
        "union_shifts": SHIFTS,
        "random_orders": RANDOM_ORDERS,
        "random_draws": study.random_draws,
        "reference": study.segmenter,
        "texts": texts,
        "second_seed": described(found.second),
        "pretrained": None
        if PRETRAINED in study.models
        else {
            "zh": "没有给出微调前的模型（--base），因此没有与预训练的比较。",
            "en": "No model before fine-tuning was given (--base), so that pretraining is not "
            "compared.",
        },
        "leaving_out": None if found.left_out is None else _left_out(found.left_out),
        "resolution": resolution(found),
    }


def _described(study: Study) -> dict[str, Any]:
    """Sizes of both halves, how heads are read, and what each answer reaches on validation."""
    texts, readers = study.texts, study.graded
    chosen, calibrated = preferred(study), readers.calibrated
    models = study.models.items()
    return {
        "discovery": _sizes(texts.discovery),
        "validation": _sizes(texts.validation) | {"shared_with_discovery": texts.shared},
        "best_head": {name: str(one.best) for name, one in models},
        "reading": f"{calibrated.feature(readers.best)} {calibrated.condition(readers.best)}",
        "named": {name: int(one.calibrated.named.named.sum()) for name, one in models},
        "union_k": study.k,
        "vote": [str(head) for head in readers.voters],
        "answers": {
            name: {measure: known(judged.value(measure)) for measure in MEASURES}
            for name, (_, judged) in answers(study).items()
        },
        "granularity": {head: one[0] for head, one in chosen.items()},
        "granularity_holds": sum(one == other for one, other in chosen.values()),
    }


def _sizes(decisions: Decisions) -> dict[str, Any]:
    return {
        "pairs": len(decisions.pairs),
        "texts": len(decisions.asked),
        "queries": decisions.n_queries,
        "decisions": len(decisions),
        "coverage": decisions.coverage,
        "short_texts_left_out": decisions.short,
    }


def _stability(found: Studies) -> Stability | None:
    """Of the named heads: by balanced accuracy, read on validation as they were on discovery."""
    study = found.main
    calibrated, validation = study.graded.calibrated, study.texts.validation
    said = study.graded.said
    again = np.stack([balanced_by_query(one, study.truth, validation) for one in said], axis=1)
    beside = [Elsewhere(VALIDATION, by_mean(again), len(again))]
    if found.second is not None:
        per_query = found.second.scores.per_query
        beside.append(Elsewhere(found.second.name, by_mean(per_query), len(per_query)))
    return stability(
        by_mean(calibrated.per_query),
        calibrated.named.heads(),
        len(calibrated.per_query),
        elsewhere=beside,
        seed=study.seed,
    )


def _left_out(found: LeftOut) -> dict[str, Any]:
    relative = {
        name: loss.change * POINT / found.base if found.base > 0 else None
        for name, loss in found.losses.items()
        if name.endswith(":matched")
    }
    return {
        "heads": [str(head) for head in found.heads],
        "metric": found.metric,
        "base": known(found.base),
        "pairs": len(found.pairs),
        "queries": found.n_queries,
        "change": {name: known(loss.change) for name, loss in found.losses.items()},
        "relative": relative,
        "draws": {name: loss.draws for name, loss in found.losses.items()},
    }
