"""Claims and measurements in words: the texts of a probe's TOML, filled from a result.

Report, command line and page all use this. A result may be older than the texts: an id without a text is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.probes.texts import COMMON, UNKNOWN, Texts, has_texts, texts_of, unit
from qt_bert.results.probe import Measurement, ProbeResult, SourcedClaim
from qt_bert.stats.verdict import MOST_QUERIES
from qt_bert.text import Label, Text, shortest

NOTHING = Text("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimInWords:
    """A claim with its text, a short text, its verdict, what follows from it, and its unit.

    `beside`: further figures to read the value by. `reason`: why an undecided claim is not decided, and how
    many queries would decide it; else empty.
    """

    claim: SourcedClaim
    text: Text
    short: Text
    beside: Text
    verdict: Text
    follows: Text
    reason: Text
    unit: Label

    @property
    def conclusion(self) -> Text:
        """What follows from the verdict, with the reason if nothing is decided."""
        if self.reason == NOTHING:
            return self.follows
        return Text(
            f"{self.follows.zh.rstrip('。')}：{self.reason.zh}。",
            f"{self.follows.en.rstrip('.')}: {self.reason.en}.",
        )

    @property
    def margin(self) -> str:
        """The claimed side of the margin, as in `> 2`."""
        return f"{'>' if self.claim.side == 'above' else '<'} {shortest(self.claim.margin)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementInWords:
    """A measurement with its text and unit."""

    measurement: Measurement
    text: Text
    unit: Label


def claims_in_words(result: ProbeResult) -> tuple[ClaimInWords, ...]:
    """The judged claims of a probe, in order."""
    return tuple(_claim(claim, result.probe, result.facts) for claim in result.claims)


def plan_claim_in_words(claim: SourcedClaim, changes: Mapping[str, float]) -> ClaimInWords:
    """The claim of a plan, with the texts of `plan.toml`; `changes` on validation by metric."""
    return _claim(claim, "plan", changes)


def measurements_in_words(result: ProbeResult) -> tuple[MeasurementInWords, ...]:
    """The measurements of a probe, in order."""
    return tuple(_measurement(each, result.probe, result.facts) for each in result.measurements)


def question_of(probe: str) -> Text | None:
    """The probe's question; None for an unknown probe."""
    return _filled(_texts(probe), "question", {})


def _claim(claim: SourcedClaim, probe: str, facts: Mapping[str, Any]) -> ClaimInWords:
    name = claim.id.removeprefix(f"{probe}.")
    common, own = texts_of(COMMON), _texts(probe)
    key = claim.verdict.replace(" ", "_")
    follows = _filled(own, f"claims.{name}.{key}", facts)
    text = _filled(own, f"claims.{name}", facts) or Text(claim.id, claim.id)
    return ClaimInWords(
        claim=claim,
        text=text,
        short=_filled(own, f"claims.{name}.short", facts) or text,
        beside=_known(_filled(own, f"claims.{name}.beside", facts) or NOTHING),
        verdict=common.text(f"verdicts.{claim.verdict}"),
        follows=follows or common.text(f"follows.{claim.verdict}"),
        reason=_reason(claim, own, facts),
        unit=unit(claim.unit),
    )


def _known(beside: Text) -> Text:
    """The figures beside a claim, without those that the model has not, such as the grade of one logit."""

    def parts(text: str, comma: str) -> str:
        return comma.join(part for part in text.split(comma) if UNKNOWN not in part)

    return Text(parts(beside.zh, "，"), parts(beside.en, ", "))


def _reason(claim: SourcedClaim, own: Texts | None, facts: Mapping[str, Any]) -> Text:
    """The text of a reason such as `precondition:gap`: the probe's own, else that of its kind."""
    if claim.verdict in ("reproduced", "not reproduced"):
        return NOTHING
    common = texts_of(COMMON)
    known = {**facts, "margin": claim.margin, "p": claim.p, "queries": claim.n_queries}
    kind, _, detail = claim.reason.partition(":")
    if detail.isdigit():
        known["queries"] = int(detail)  # such as `few_queries:39`
    places = ((own, claim.reason), (common, claim.reason), (common, kind))
    candidates = (_filled(texts, f"reasons.{key}", known) for texts, key in places)
    reason = next(filter(None, candidates), Text(claim.reason, claim.reason))
    needs = claim.needs_queries
    if needs is None:
        return reason
    more = common.text("sample", {"needs": queries_needed(needs)})
    return Text(f"{reason.zh}；{more.zh}", f"{reason.en}; {more.en}")


def queries_needed(needs: tuple[int, int]) -> Text:
    """A claim's `needs_queries` in words."""
    if needs[0] == needs[1] <= MOST_QUERIES:
        return Text(f"{needs[0]:,}", f"{needs[0]:,}")
    kind = "many" if needs[0] > MOST_QUERIES else "from" if needs[1] > MOST_QUERIES else "between"
    return texts_of(COMMON).text(f"needs.{kind}", {"fewest": needs[0], "most": needs[1]})


def _measurement(measured: Measurement, probe: str, facts: Mapping[str, Any]) -> MeasurementInWords:
    text = _filled(_texts(probe), f"measurements.{measured.id}", facts)
    text = text or Text(measured.id, measured.id)
    return MeasurementInWords(measurement=measured, text=text, unit=unit(measured.unit))


def _texts(probe: str) -> Texts | None:
    return texts_of(probe) if probe.isidentifier() and has_texts(probe) else None


def _filled(texts: Texts | None, path: str, facts: Mapping[str, Any]) -> Text | None:
    """The text; None if it is missing, or the result lacks one of its facts."""
    try:
        return None if texts is None else texts.text_or(path, facts)
    except ArgumentError:
        return None
