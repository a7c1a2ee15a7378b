"""What the low half keeps with the matching heads alone, and what a cut between the texts costs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.ablation.variant import Variant
from qt_bert.probes.claims import POINTS, beyond
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.term_matching.beside import ARTICLE, PERCENT, about, beside
from qt_bert.probes.term_matching.changes import Changes
from qt_bert.probes.term_matching.study import Contests, Study
from qt_bert.probes.term_matching.words import CONCLUSIONS, measure
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source

LEAST_LOSS = 2.0
"""Points that the low half must be worth before a share of them is told."""


def kept_findings(study: Study, contests: Contests, changes: Changes) -> Iterable[Finding]:
    if contests.kept is None or contests.low_off is None:
        return
    kept, k, what = contests.kept, len(study.low), measure(changes.metric)
    gain, p = changes.against(kept.target, kept.matched, below=False)
    yield beyond(
        "matching_kept",
        Text(
            f"低半层只留 {k} 个匹配头，比只留同样几层里同样多的其他头保住更多的{what.zh}",
            f"With {k} matching heads alone in the low half more {what.en} is kept than with as "
            "many other heads of the same layers",
        ),
        Source(article=ARTICLE, section="2.4", value="82 %"),
        gain.value,
        gain.samples,
        p=p,
        unit=POINTS,
        conclusions=CONCLUSIONS["kept"],
        **about(changes, "low_half"),
    )
    yield from _shares_kept(contests, kept.target, k, changes)


def _shares_kept(contests: Contests, kept: Variant, k: int, changes: Changes) -> Iterable[Finding]:
    """What is left of the whole model's metric, and of what the low half is worth."""
    what, said = measure(changes.metric), about(changes, "low_half")
    yield beside(
        "matching_kept_share",
        Text(
            f"低半层只留 {k} 个匹配头时，{what.zh}是完整模型的百分之几",
            f"{what.en.capitalize()} with {k} matching heads alone in the low half, as a share of "
            "the whole model's",
        ),
        "82 %",
        kept_share(changes.of(kept), changes),
        "%",
        said,
    )
    yield beside(
        "matching_recovered",
        Text(
            f"低半层全部去掉所损失的{what.zh}中，{k} 个匹配头保住的比例",
            f"Of the {what.en} that the whole low half is worth, the share that {k} matching "
            "heads keep",
        ),
        None,
        recovered(contests, changes),
        "%",
        said,
    )


def kept_share(change: Estimate, changes: Changes) -> Estimate:
    """The metric after a change as a share of the whole model's, in percent."""
    left = Estimate(changes.base.value + change.value, changes.base.samples + change.samples)
    return left.over(changes.base).times(PERCENT)


def recovered(contests: Contests, changes: Changes) -> Estimate:
    """(kept − low half off) / (whole − low half off) in percent; none where the low half is worth little."""
    assert contests.kept is not None and contests.low_off is not None
    off, kept = changes.of(contests.low_off), changes.of(contests.kept.target)
    whole = off.times(-1.0)
    if not whole.value >= LEAST_LOSS:
        return Estimate(float("nan"), np.empty(0))
    return kept.less(off).over(whole).times(PERCENT)


def cut_findings(study: Study, contests: Contests, changes: Changes) -> Iterable[Finding]:
    cut, k, what = contests.cut, len(study.chosen), measure(changes.metric)
    loss, p = changes.against(cut.target, cut.matched)
    yield beyond(
        "matching_cut",
        Text(
            f"只在 {k} 个匹配头里隔断 query 与 title，{what.zh}就比在同层其他头里隔断下降得更多",
            f"Cutting query from title in the {k} matching heads alone costs more {what.en} than in "
            "as many other heads of their layers",
        ),
        Source(article=ARTICLE, section="2.4", value=None),
        loss.value,
        loss.samples,
        p=p,
        side="below",
        unit=POINTS,
        conclusions=CONCLUSIONS["cut"],
        **about(changes, "matching"),
    )
    yield beside(
        "matching_cut_all",
        Text(
            "在所有层、所有头里隔断 query 与 title（只有 [CLS] 仍能看到两段文本）",
            "Query cut from title in every head of every layer ([CLS] alone still sees both texts)",
        ),
        None,
        changes.of(contests.cut_all),
        POINTS,
        about(changes),
    )
