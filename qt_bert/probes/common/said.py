"""A probe that can only say why it says nothing."""

from __future__ import annotations

from qt_bert.probes.context import ProbeContext
from qt_bert.results import ProbeResult, Text


def said_only(name: str, summary: Text, context: ProbeContext) -> ProbeResult:
    """The result of the probe `name` with a sentence and no findings: what it needs is not there."""
    return ProbeResult(
        probe=name,
        model=context.model_ref,
        pairs=context.pairs_ref,
        settings={},
        summary=summary,
        findings=(),
        sets={},
    )
