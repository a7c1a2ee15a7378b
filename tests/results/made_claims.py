"""Judged claims and measurements as a probe in the new shape leaves them."""

from typing import Any

from qt_bert.results.probe import Measurement, Source, SourcedClaim
from qt_bert.text import Text

FACTS: dict[str, Any] = {
    "rule_head": "L3H7",
    "head": "L1H2",
    "named": 2,
    "rule_accuracy": 0.81,
    "characters_accuracy": 0.7,
    "head_accuracy": 0.85,
    "head_word_f1": 0.7,
    "decisions": 900,
    "coverage": 0.98,
}
"""What fills the texts of the probe `boundary`."""


def source(value: float | str | Text | None = None, section: str = "2.2") -> Source:
    return Source(article="heads_of_query_title_bert", section=section, value=value)


def claim(id: str = "boundary.beyond_characters", **changes: Any) -> SourcedClaim:
    """A reproduced claim: 11 points, [7.5, 14], against a margin of 2."""
    facts: dict[str, Any] = {"verdict": "reproduced", "reason": "decided", "unit": "points"}
    facts |= {"value": 11.0, "ci_low": 7.5, "ci_high": 14.0, "p": 0.0001, "q": 0.0001}
    facts |= {"side": "above", "margin": 2.0, "n_queries": 160, "needs_queries": None}
    return SourcedClaim(id=id, **(facts | {"source": source("70 %")} | changes))


def undecided(id: str = "boundary.beyond_characters", **changes: Any) -> SourcedClaim:
    """An inconclusive one that 400 to 1,300 queries would decide."""
    facts: dict[str, Any] = {"verdict": "inconclusive", "reason": "interval", "value": 3.0}
    facts |= {"ci_low": 1.0, "ci_high": 5.0, "p": 0.3, "needs_queries": (400, 1_300)}
    return claim(id, **(facts | changes))


def untestable(id: str = "boundary.beyond_characters", **changes: Any) -> SourcedClaim:
    """One whose probe covers too few characters that are tokens."""
    facts: dict[str, Any] = {"verdict": "not testable", "reason": "coverage", "n_queries": 0}
    facts |= dict.fromkeys(("value", "ci_low", "ci_high", "p", "q"))
    return claim(id, **(facts | changes))


def measurement(id: str = "rule_accuracy", **changes: Any) -> Measurement:
    facts: dict[str, Any] = {"value": 0.81, "ci_low": 0.78, "ci_high": 0.84}
    facts |= {"n_queries": 160, "unit": "share", "source": source("70 %")}
    return Measurement(id=id, **(facts | changes))
