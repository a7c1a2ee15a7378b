"""Verdicts and conclusions in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from qt_bert.report.blocks import Badge, Interval
from qt_bert.results import Finding, Text
from qt_bert.results.numbers import shortest
from qt_bert.results.probe import Verdict
from qt_bert.results.text import Label, in_language

VERDICTS: dict[Verdict, Badge] = {
    "reproduced": Badge(Text("复现", "reproduced"), "good"),
    "not reproduced": Badge(Text("未复现", "not reproduced"), "bad"),
    "inconclusive": Badge(Text("未定", "inconclusive"), "open"),
}

_BEYOND: dict[Verdict, Text] = {
    "reproduced": Text(
        "这份数据支持这一说法。",
        "These data bear the claim out.",
    ),
    "not reproduced": Text(
        "这份数据不支持这一说法：整个区间都在它所说的范围之外。",
        "These data speak against the claim: no part of the interval lies where it says.",
    ),
    "inconclusive": Text(
        "这份数据不足以判断：成立与不成立都与区间或检验相容。",
        "These data cannot decide: the interval or the test leaves both answers open.",
    ),
}


def badge(finding: Finding) -> Badge | None:
    """The verdict, framed; nothing for a finding that is no claim."""
    return None if finding.verdict is None else VERDICTS[finding.verdict]


def measured(finding: Finding) -> Interval:
    """The finding's value with its interval, in its unit."""
    return Interval(
        value=finding.value,
        low=finding.ci_low,
        high=finding.ci_high,
        unit=finding.unit,
        digits=digits_of(finding),
    )


def digits_of(finding: Finding) -> int:
    """Digits after the point that suit the finding's size."""
    sizes = [abs(x) for x in (finding.value, finding.ci_low, finding.ci_high) if x is not None]
    largest = max(sizes, default=0.0)
    return 1 if largest >= 10 else 2 if largest >= 1 else 3


def source_value(finding: Finding) -> Label | None:
    """The source's figure, where it gives one."""
    value = finding.source.value
    return shortest(value) if isinstance(value, float) else value


def source_place(finding: Finding) -> str:
    """The article and the section that the claim comes from."""
    source = finding.source
    return f"{source.article.replace('_', ' ')} §{source.section}"


def conclusion(finding: Finding) -> Text | None:
    """What a reader may conclude: the probe's sentence for this verdict, or the general one."""
    if finding.verdict is None:
        return None
    if finding.conclusion is not None:
        return finding.conclusion
    if finding.side == "none":
        return _within(finding)
    return _BEYOND[finding.verdict]


def tally(findings: Sequence[Finding]) -> Text:
    """How many claims came out how."""
    counts = Counter(finding.verdict for finding in findings)
    zh = "，".join(f"{one.text.zh} {counts[verdict]}" for verdict, one in VERDICTS.items())
    en = ", ".join(f"{counts[verdict]} {one.text.en}" for verdict, one in VERDICTS.items())
    total = len(findings)
    claims = "claim was" if total == 1 else "claims were"
    return Text(f"检验了 {total} 条说法：{zh}。", f"{total} {claims} tested: {en}.")


def _within(finding: Finding) -> Text:
    zh, en = (_margin(finding, language) for language in ("zh", "en"))
    return {
        "reproduced": Text(
            f"即使有影响，也不超过 {zh}。", f"If there is an effect, it is within {en}."
        ),
        "not reproduced": Text(
            f"有影响，且超过 {zh}。", f"There is an effect, and it is beyond {en}."
        ),
        "inconclusive": Text(
            f"这份数据不足以判断影响是否在 {zh} 以内。",
            f"These data cannot tell whether the effect is within {en}.",
        ),
    }[finding.verdict or "inconclusive"]


def _margin(finding: Finding, language: str) -> str:
    return f"± {shortest(finding.margin or 0.0)} {in_language(finding.unit, language)}".rstrip()
