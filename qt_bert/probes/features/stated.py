"""Shares of attention as findings: in hundredths, by a mean over queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.features import words
from qt_bert.probes.naming import average
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

_BASE = Text("对照，微调前的模型：", "Beside, before fine-tuning: ")


def stated(
    id: str,
    claim: Text,
    source: Source,
    per_query: FloatArray,
    context: Context,
    *,
    side: Literal["above", "below"] = "above",
    conclusions: Mapping[Verdict, Text] | None = None,
) -> Finding:
    """That the mean over queries of shares of attention lies above, or below, 0."""
    found = average(per_query / words.PERCENT, context.resamples, context.seed)
    return beyond(
        id,
        claim,
        source,
        found.value,
        found.samples,
        p=found.p_above if side == "above" else found.p_below,
        n_queries=found.n_queries,
        side=side,
        unit=words.POINTS,
        conclusions=conclusions,
    )


def beside(finding: Finding) -> Finding:
    """A finding that stands beside the claims."""
    return replace(finding, primary=False, conclusions={})


def of_base(finding: Finding) -> Finding:
    """The same of the model before fine-tuning, beside the claim about this one."""
    claim = Text(_BASE.zh + finding.claim.zh, _BASE.en + finding.claim.en)
    return beside(replace(finding, id=f"{finding.id}_before", claim=claim))
