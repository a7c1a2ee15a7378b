"""What is claimed of the kinds' shares, and the same corrected for the classifier's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import bootstrap_weights
from qt_bert.probes.claims import beyond
from qt_bert.probes.common.averages import average
from qt_bert.probes.common.naming import one_sided_p
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.map_patterns.correction import corrected, redrawn
from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.study import Study
from qt_bert.probes.map_patterns.words import (
    ARTICLE,
    HALF_CONCLUSIONS,
    POINTS,
    RISE_CONCLUSIONS,
    SHARE,
    THIRD_CONCLUSIONS,
    TUNED,
    TYPES,
)
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source, Verdict

CORRECTED_RESAMPLES = 500
VERTICAL, HETEROGENEOUS = KINDS.index("vertical"), KINDS.index("heterogeneous")

Figure = Callable[[FloatArray, FloatArray], FloatArray]
"""A figure in hundredths, from shares after and before fine-tuning [..., KINDS] → [...]."""


@dataclass(frozen=True)
class Claim:
    """A claim that `figure` lies above `margin`; `of_both` models, or of the later one alone."""

    id: str
    text: Text
    source: Source
    unit: Text
    figure: Figure
    margin: float
    conclusions: Mapping[Verdict, Text]
    of_both: bool = False


CLAIMS = (
    Claim(
        "vertical_rises",
        Text("微调后，竖线图的份额上升", "After fine-tuning more of the maps are vertical"),
        Source(
            article=ARTICLE,
            section=TUNED,
            value=Text("更多依赖竖线模式", "relies more on the vertical pattern"),
        ),
        POINTS,
        lambda after, before: 100 * (after[..., VERTICAL] - before[..., VERTICAL]),
        0.0,
        RISE_CONCLUSIONS,
        of_both=True,
    ),
    Claim(
        "a_third_vertical",
        Text("至少三分之一的图是竖线图", "At least a third of the maps are vertical"),
        Source(article=ARTICLE, section=TYPES, value=Text("≥ 1/3", "≥ 1/3")),
        SHARE,
        lambda after, _: 100 * after[..., VERTICAL],
        100 / 3,
        THIRD_CONCLUSIONS,
    ),
    Claim(
        "under_half_heterogeneous",
        Text(
            "混杂图不到一半（其余四类合起来超过一半）",
            "Under half of the maps are heterogeneous: the other four kinds make up more than half",
        ),
        Source(
            article=ARTICLE,
            section=TYPES,
            value=Text("多数任务上 < 1/2", "< 1/2 for most tasks"),
        ),
        SHARE,
        lambda after, _: 100 * (1 - after[..., HETEROGENEOUS]),
        50.0,
        HALF_CONCLUSIONS,
    ),
)


def findings(study: Study, context: ProbeContext) -> list[Finding]:
    """The claims, then the corrected figures that stand beside them; all on validation.

    Without the model before fine-tuning, what is claimed of both is left out.
    """
    claims = [one for one in CLAIMS if study.before is not None or not one.of_both]
    return [
        *(_stated(claim, _per_query(study), context) for claim in claims),
        *_corrected(claims, study, context),
        *_by_second_pass(claims, study, context),
    ]


def _per_query(study: Study) -> tuple[FloatArray, FloatArray]:
    """Shares of the kinds over all heads, after and before [queries, KINDS]; alike without a base."""
    models = (study.after, study.before or study.after)
    after, before = (model.of_all[:, : len(KINDS)] for model in models)
    return after, before


def _by_second_pass(claims: list[Claim], study: Study, context: ProbeContext) -> Iterator[Finding]:
    """The claims' figures by rules fitted on the second pass of labels, where there was one."""
    after = study.after.of_all_by_second
    before = after if study.before is None else study.before.of_all_by_second
    if after is None or before is None:
        return
    for claim in claims:
        said = Text(
            f"按第二遍标注拟合的规则：{claim.text.zh}",
            f"By rules fitted on the second pass of labels: {claim.text.en}",
        )
        other = replace(claim, id=f"{claim.id}_second_pass", text=said)
        yield replace(_stated(other, (after, before), context), primary=False, conclusions={})


def _stated(
    claim: Claim, per_query: tuple[FloatArray, FloatArray], context: ProbeContext
) -> Finding:
    found = average(claim.figure(*per_query), context.resamples, context.seed)
    return beyond(
        f"patterns.{claim.id}",
        claim.text,
        claim.source,
        found.value,
        found.samples,
        p=float(one_sided_p(found.known - claim.margin)),
        n_queries=found.n_queries,
        margin=claim.margin,
        unit=claim.unit,
        conclusions=claim.conclusions,
    )


def _corrected(claims: list[Claim], study: Study, context: ProbeContext) -> Iterator[Finding]:
    """The claims' figures, were the classifier's errors those it made on maps it was not fitted on."""
    per_query, confusion = _per_query(study), study.classifier.confusion
    queries = len(per_query[0])
    rng = np.random.default_rng(context.seed)
    drawn = bootstrap_weights(
        queries, min(context.resamples, CORRECTED_RESAMPLES), context.seed, width=queries
    )
    even = np.full(queries, 1 / queries)
    once = _both(per_query, even, confusion)
    again = [
        _both(per_query, weights / queries, redrawn(confusion, rng))
        for rows in drawn
        for weights in rows
    ]
    for claim in claims:
        yield beyond(
            f"patterns.{claim.id}_corrected",
            Text(
                f"按分类器的错误校正后：{claim.text.zh}",
                f"Corrected for the classifier's errors: {claim.text.en}",
            ),
            claim.source,
            float(claim.figure(*once)),
            np.array([float(claim.figure(*one)) for one in again]),
            p=None,
            n_queries=queries,
            margin=claim.margin,
            unit=claim.unit,
            primary=False,
        )


def _both(
    per_query: tuple[FloatArray, FloatArray], weights: FloatArray, confusion: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The corrected shares [KINDS] of both models, queries weighted."""
    after, before = (corrected(weights @ shares, confusion) for shares in per_query)
    return after, before
