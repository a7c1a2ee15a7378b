"""What the article claims of matching heads, as findings on validation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.multiplicity import NO_EFFECT_ACCURACY
from qt_bert.probes.claims import POINTS, beyond, no_effect
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.common.naming import one_sided_p
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.term_matching.beside import ARTICLE, PERCENT, about, beside
from qt_bert.probes.term_matching.cells import DIRECTIONS
from qt_bert.probes.term_matching.changes import POINT, Changes
from qt_bert.probes.term_matching.head_scores import LEAST_SCORE
from qt_bert.probes.term_matching.keeping import cut_findings, kept_findings
from qt_bert.probes.term_matching.study import Contests, Study
from qt_bert.probes.term_matching.words import CONCLUSIONS, DIRECTION_NAMES, measure
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source


def findings(study: Study, context: ProbeContext) -> list[Finding]:
    """All claims of the probe; those that leave heads out are missing where none could be scored."""
    found = [_found(study, context.resamples, context.seed)]
    if study.contests is not None and study.changes is not None:
        found += _left_out(study, study.contests, study.changes, free_claimed=context.full)
        found += kept_findings(study, study.contests, study.changes)
        found += cut_findings(study, study.contests, study.changes)
    return found


def lost(contests: Contests, changes: Changes) -> Estimate:
    """What leaving the heads out costs beyond what layer-matched heads cost, in points."""
    return changes.against(contests.out.target, contests.out.matched)[0]


def _found(study: Study, resamples: int, seed: int) -> Finding:
    """The best head on discovery, in its direction there, on validation."""
    head = study.chosen[0] if study.chosen else None
    value, samples, p = float("nan"), np.empty(0), None
    if head is not None:
        direction = int(study.discovery.direction[head])
        at = (*head, direction)
        value = float(study.validation.ratio()[at])
        samples = study.validation.resampled(resamples, seed)[(slice(None), *at)]
        excess: FloatArray = study.validation.excess()[(slice(None), *at)] - np.log(LEAST_SCORE)
        p = float(one_sided_p(excess))
    zh, en = _named_head(study, head)
    return beyond(
        "matching_found",
        Text(
            f"有的头把注意力放在另一段文本的相同字上，是无可匹配时的 2 倍以上（发现集上最强的是{zh}）",
            "Some head looks at its own character in the other text over twice as much as where "
            f"there is nothing to match (the best on discovery: {en})",
        ),
        Source(article=ARTICLE, section="2.4", value=None),
        value,
        samples,
        p=p,
        n_queries=study.validation.sums.n_queries,
        margin=LEAST_SCORE,
        unit="×",
        conclusions=CONCLUSIONS["found"],
    )


def _named_head(study: Study, head: Head | None) -> tuple[str, str]:
    if head is None:
        return "无", "none"
    direction = DIRECTION_NAMES[DIRECTIONS[study.discovery.direction[head]]]
    return f" {head}，{direction.zh}", f"{head}, {direction.en}"


def _left_out(
    study: Study, contests: Contests, changes: Changes, *, free_claimed: bool
) -> Iterable[Finding]:
    out, k, what = contests.out, len(study.chosen), measure(changes.metric)
    loss, p = changes.against(out.target, out.matched)
    said = about(changes, "matching")
    yield beyond(
        "matching_loss",
        Text(
            f"去掉 {k} 个匹配头使{what.zh}下降，比去掉同样几层里同样多的其他头下降得更多",
            f"Without the {k} matching heads {what.en} falls further than without as many other "
            "heads of the same layers",
        ),
        Source(article=ARTICLE, section="2.4", value=Text("−50 %（相对）", "−50 % (relative)")),
        loss.value,
        loss.samples,
        p=p,
        side="below",
        unit=POINTS,
        conclusions=CONCLUSIONS["loss"],
        **said,
    )
    yield from _article_figures(study, contests, changes)
    yield _free(study, contests, changes, primary=free_claimed)
    yield from _beside_loss(study, contests, changes)


def _article_figures(study: Study, contests: Contests, changes: Changes) -> Iterable[Finding]:
    """The change itself and as the article counts it, without any control."""
    k, what, said = len(study.chosen), measure(changes.metric), about(changes, "matching")
    change = changes.of(contests.out.target)
    yield beside(
        "matching_change",
        Text(
            f"去掉 {k} 个匹配头后{what.zh}的变化（不减对照）",
            f"The change of {what.en} without the {k} matching heads, no control taken off",
        ),
        None,
        change,
        POINTS,
        said,
    )
    yield beside(
        "matching_relative",
        Text(
            f"去掉 {k} 个匹配头后{what.zh}的相对变化（文章的算法）",
            f"The relative change of {what.en} without the {k} matching heads, as the article "
            "counts it",
        ),
        "−50 %",
        change.over(changes.base).times(PERCENT),
        "%",
        said,
    )


def _free(study: Study, contests: Contests, changes: Changes, *, primary: bool) -> Finding:
    """What as many heads anywhere cost, a mean over sets of them; a claim where `primary`."""
    k, what, free = len(study.chosen), measure(changes.metric), changes.mean(contests.out.free)
    return no_effect(
        "matching_free",
        Text(
            f"随机去掉 {k} 个头，平均而言{what.zh}不变",
            f"Leaving out {k} heads at random does not, on average, change {what.en}",
        ),
        Source(article=ARTICLE, section="2.4", value="≈ 0"),
        None if free is None else free.value,
        None if free is None else free.samples,
        margin=NO_EFFECT_ACCURACY / POINT,
        unit=POINTS,
        primary=primary,
        conclusions=CONCLUSIONS["free"],
        **about(changes),
    )


def _beside_loss(study: Study, contests: Contests, changes: Changes) -> Iterable[Finding]:
    """One head alone; under --full the loudness-matched control and the mode `mean`."""
    out, k, said = contests.out, len(study.chosen), about(changes, "matching")
    if 1 in contests.curve:
        yield beside(
            "matching_single",
            Text(
                f"只去掉最强的一个匹配头（{study.chosen[0]}）",
                f"The single best matching head left out ({study.chosen[0]})",
            ),
            "< 0",
            changes.of(contests.curve[1].target),
            POINTS,
            said,
            section="2.4.2",
        )
    if out.loud:
        yield beside(
            "matching_loud",
            Text(
                f"去掉 {k} 个匹配头，与去掉输出范数相近的其他头之差",
                f"The {k} matching heads left out, less other heads of like norm",
            ),
            None,
            changes.against(out.target, out.loud)[0],
            POINTS,
            said,
        )
    if contests.mean is not None:
        yield beside(
            "matching_mean",
            Text(
                f"以均值代替 {k} 个匹配头，与同层其他头之差",
                f"The {k} matching heads replaced by their means, less other heads of their layers",
            ),
            None,
            changes.against(contests.mean.target, contests.mean.matched)[0],
            POINTS,
            said,
        )
