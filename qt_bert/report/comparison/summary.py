"""The comparison in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.report.comparison.names import names
from qt_bert.report.evaluation.words import headlines
from qt_bert.results import Text
from qt_bert.results.comparison import ComparisonResult
from qt_bert.results.numbers import interval, number


def beside(comparison: ComparisonResult) -> Text:
    """B less A by the headline metrics, each with its interval and p."""
    a, b = names(comparison)
    found = list(_differences(comparison))
    zh = "；".join(one.zh for one in found) or "没有共同的指标"
    en = "; ".join(one.en for one in found) or "no metric in common"
    return Text(
        f"{b} 减 {a}，同样的 {comparison.n_pairs:,} 对：{zh}。",
        f"{b} less {a}, on the same {comparison.n_pairs:,} pairs: {en}.",
    )


def _differences(comparison: ComparisonResult) -> Iterator[Text]:
    known = {n: one for n, one in comparison.metrics.items() if one.difference is not None}
    for name, title in headlines(known).items():
        metric = known[name]
        shown = f"{metric.difference:+.3f}".replace("-", "\N{MINUS SIGN}")
        ends = f"{shown} {interval(metric.ci_low, metric.ci_high)}".rstrip()
        p = "" if metric.p is None else f" (p = {number(metric.p, 4)})"
        yield Text(f"{title.zh} {ends}{p}", f"{title.en} {ends}{p}")
