"""Figures that stand beside the claims."""

from __future__ import annotations

from qt_bert.probes.claims import beyond
from qt_bert.probes.common.draws import Estimate
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source
from qt_bert.results.text import Label


def beside_claims(
    id: str, claim: Text, source: Source, found: Estimate, unit: Label, n_queries: int
) -> Finding:
    """A value with its interval, as a finding without p, q and verdict."""
    return beyond(
        id,
        claim,
        source,
        found.value,
        found.samples,
        p=None,
        n_queries=n_queries,
        unit=unit,
        primary=False,
    )
