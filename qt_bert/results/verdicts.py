"""q-values and verdicts of findings, judged together: those of a probe, or of a whole report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qt_bert.evaluation.multiplicity import no_effect_verdict, q_values, verdict
from qt_bert.results.probe import Finding, Verdict


def settle(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """`findings` with q and verdict; they are one family for Benjamini and Hochberg.

    The family are the primary findings that claim a side and have a p-value. Claims of no effect
    need no q; findings that are not primary get neither q nor verdict. Whatever q and verdict the
    findings had before is replaced, so that a report may settle the findings of all its probes anew.
    Raises ArgumentError for a p-value outside 0..1, a negative margin or a reversed interval.
    """
    tested = [one.p if one.primary and one.side != "none" else None for one in findings]
    settled = zip(findings, q_values(tested), strict=True)
    return tuple(replace(one, q=q, verdict=_verdict(one, q)) for one, q in settled)


def _verdict(finding: Finding, q: float | None) -> Verdict | None:
    if not finding.primary:
        return None
    margin = finding.margin or 0.0
    if finding.side == "none":
        return no_effect_verdict(finding.ci_low, finding.ci_high, margin)
    return verdict(finding.ci_low, finding.ci_high, q, finding.side, margin)
