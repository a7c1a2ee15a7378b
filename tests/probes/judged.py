"""What a finding of a probe that is not ported yet says: where its interval lies."""

from __future__ import annotations

from qt_bert.results.probe import Finding


def outcome(finding: Finding) -> str:
    """`reproduced` where the interval and p bear the claim out, `not reproduced` where none of it does."""
    low, high, margin = finding.ci_low, finding.ci_high, finding.margin or 0.0
    if low is None or high is None:
        return "inconclusive"
    if finding.side == "none":
        inside = -margin <= low and high <= margin
        outside = low > margin or high < -margin
        return "reproduced" if inside else "not reproduced" if outside else "inconclusive"
    near, far = (low, high) if finding.side == "above" else (-high, -low)
    if far <= margin:
        return "not reproduced"
    told = finding.p is not None and finding.p < 0.05
    return "reproduced" if near > margin and told else "inconclusive"
