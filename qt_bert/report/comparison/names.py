"""What the two models are called: by their names, or by letters where these are one."""

from __future__ import annotations

from qt_bert.results.comparison import ComparisonResult
from qt_bert.results.numbers import clip


def names(comparison: ComparisonResult) -> tuple[str, str]:
    """`A: graded` and `B: small`."""
    return f"A: {clip(comparison.a.name, 40)}", f"B: {clip(comparison.b.name, 40)}"
