"""What is claimed of the kinds' shares, and the same corrected for the classifier's errors."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.naming import average, one_sided_p
from qt_bert.probes.patterns.correction import are_known, corrected, rates
from qt_bert.probes.patterns.errors import Errors
from qt_bert.probes.patterns.kinds import KINDS
from qt_bert.probes.patterns.study import Study
from qt_bert.probes.patterns.words import (
    ARTICLE,
    CORRECTED,
    HALF_CONCLUSIONS,
    OTHER_KINDS,
    POINTS,
    RISE_CONCLUSIONS,
    SECOND_PASS,
    SHARE,
    THIRD_CONCLUSIONS,
    TUNED,
    TYPES,
)
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import bootstrap_weights
from qt_bert.text import Text

CORRECTED_RESAMPLES = 500
VERTICAL, HETEROGENEOUS = KINDS.index("vertical"), KINDS.index("heterogeneous")

Estimand = Callable[[FloatArray, FloatArray], FloatArray]
"""What a claim is about, in hundredths, from shares after and before fine-tuning [..., KINDS] → [...]."""
AfterBefore = tuple[FloatArray, FloatArray]
"""Shares of the kinds over all heads, after and before fine-tuning [queries, KINDS]."""


@dataclass(frozen=True)
class Claim:
    """A claim that `estimand` lies above `margin`; `of_both` models, or of the later one alone."""

    id: str
    text: Text
    source: Source
    unit: Text
    estimand: Estimand
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
            "混杂图不到一半：其余四类合起来超过一半",
            "Under half of the maps are heterogeneous: the other four kinds make up more than half",
        ),
        Source(
            article=ARTICLE,
            section=TYPES,
            value=Text(
                "多数任务上混杂 < 1/2，其余 > 1/2",
                "heterogeneous < 1/2, the others > 1/2, for most tasks",
            ),
        ),
        OTHER_KINDS,
        lambda after, _: 100 * (1 - after[..., HETEROGENEOUS]),
        50.0,
        HALF_CONCLUSIONS,
    ),
)


def findings(study: Study, context: Context) -> list[Finding]:
    """The claims, then the corrected figures that stand beside them; all on validation.

    Without the model before fine-tuning, what is claimed of both is left out.
    """
    claims = [one for one in CLAIMS if study.before is not None or not one.of_both]
    before = study.before or study.after
    shares = _kinds(study.after.of_all), _kinds(before.of_all)
    found = [_stated(claim, shares, context) for claim in claims]
    found += _corrected(claims, shares, study.classifier.errors, "corrected", CORRECTED, context)
    second, earlier = study.after.of_all_by_second, before.of_all_by_second
    errors = study.classifier.errors_second
    if second is not None and earlier is not None and errors is not None:
        shares = _kinds(second), _kinds(earlier)
        found += _corrected(claims, shares, errors, "second_pass", SECOND_PASS, context)
    return found


def _kinds(seen: FloatArray) -> FloatArray:
    """Of what is counted of maps [queries, SEEN] their kinds [queries, KINDS]."""
    return seen[:, : len(KINDS)]


def _stated(claim: Claim, shares: AfterBefore, context: Context) -> Finding:
    found = average(claim.estimand(*shares), context.resamples, context.seed)
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


def _corrected(
    claims: Sequence[Claim],
    shares: AfterBefore,
    errors: Errors,
    name: str,
    words: Text,
    context: Context,
) -> Iterator[Finding]:
    """The claims' estimands, were the classifier's errors those on maps it was not fitted on.

    The intervals hold the chance of the queries and that of the labelled maps.
    """
    queries = len(shares[0])
    confusion = errors.confusion
    kinds = are_known(confusion)
    # Not the stream that the queries are drawn from: the two are to be independent.
    rng = np.random.default_rng([context.seed, zlib.crc32(name.encode())])
    drawn = bootstrap_weights(
        queries, min(context.resamples, CORRECTED_RESAMPLES), context.seed, width=queries
    )
    once = _both(shares, np.full(queries, 1 / queries), rates(confusion, kinds))
    again = [
        _both(shares, weights / queries, rates(errors.redrawn(rng), kinds))
        for rows in drawn
        for weights in rows
    ]
    for claim in claims:
        yield beyond(
            f"patterns.{claim.id}_{name}",
            Text(f"{words.zh}：{claim.text.zh}", f"{words.en}: {claim.text.en}"),
            claim.source,
            float(claim.estimand(*once)),
            np.array([float(claim.estimand(*one)) for one in again]),
            p=None,
            n_queries=queries,
            margin=claim.margin,
            unit=claim.unit,
            primary=False,
        )


def _both(shares: AfterBefore, weights: FloatArray, known_rates: FloatArray) -> AfterBefore:
    """The corrected shares [KINDS] of both models, queries weighted."""
    after, before = (corrected(weights @ one, known_rates) for one in shares)
    return after, before
