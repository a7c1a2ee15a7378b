"""Figures that stand beside the claims, as findings without a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qt_bert.probes.claims import beyond
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.term_matching.changes import Changes
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source

ARTICLE = "heads_of_query_title_bert"
PERCENT = 100.0


def beside(
    id: str,
    claim: Text,
    said: str | None,
    figure: Estimate,
    unit: Text | str,
    about: Mapping[str, Any],
    *,
    section: str = "2.4",
) -> Finding:
    """A figure that stands beside the claims."""
    source = Source(article=ARTICLE, section=section, value=said)
    return beyond(
        id,
        claim,
        source,
        figure.value,
        figure.samples,
        p=None,
        unit=unit,
        primary=False,
        **about,
    )


def about(changes: Changes, *sets: str) -> dict[str, Any]:
    """What every finding of one sweep says; `sets` are those that it is about."""
    return {"n_queries": changes.effects.n_queries, "sets": sets}
