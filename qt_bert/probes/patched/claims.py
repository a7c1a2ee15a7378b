"""What is claimed of patches, fixed before any run.

*Matching heads restore more than layer-matched ones.* Estimand: of the gap that replacing the shared
term makes, the share that comes back when the contexts of all matching heads together are put back
into the replaced pair, less the mean share over layer-matched sets (99; quick 49); of validation
pairs, a ratio of sums. Side: above. Margin: 0, for any surplus shows that more of the match
passes through them than through others at their depth; how much is the value itself. p is
their place among the sets, (1 + sets at least as large) / (1 + sets); the interval resamples
queries, and the sets. There is no value where the interval of the mean gap holds 0.

The article says only that low heads match and layer 10 reads them (2.4.3), and gives no figure.
All other findings stand beside this claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from qt_bert.probes.claims import Spread, beyond
from qt_bert.probes.common.controls import rank_p
from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched.effects import Gap, Shares
from qt_bert.probes.patched.plan import TARGET
from qt_bert.probes.patched.study import Seen, Study
from qt_bert.probes.patched.words import CONCLUSIONS, GRADE, LEVEL, SCORE, SHARE, SOURCE
from qt_bert.results import Finding, Text
from qt_bert.results.text import Label

RHO = "ρ"
NOTHING = Estimate(float("nan"), np.empty(0))


class Beyond(NamedTuple):
    """A set's share less the mean of its controls, both of them, and its place among these.

    Without a control there is neither a difference nor a p.
    """

    difference: Estimate
    target: Estimate
    matched: Estimate | None
    p: float | None


def beyond_controls(study: Study, found: Shares) -> Beyond:
    """`found` are shares of the contest's variants, the target first."""
    target = found.of(0)
    rest = Shares(found.values[1:], found.samples[:, 1:])
    mean = rest.mean(study.seed, TARGET)
    p = rank_p(target.value, rest.values, below=False)
    return Beyond(NOTHING if mean is None else target.less(mean), target, mean, p)


def restored(study: Study, seen: Seen | None = None) -> Beyond:
    """What the matching heads restore beyond layer-matched ones."""
    return beyond_controls(study, (seen or study.seen).restoring(study.plan.contest.variants))


def findings(study: Study, context: ProbeContext) -> list[Finding]:
    """The claim, then what stands beside it."""
    return [_claim(study), _gap(study, context), _set(study), *_full(study)]


def gap_unit(context: ProbeContext) -> Text:
    """Grades, levels where outputs are none, or of one logit whatever it counts in."""
    labels = context.model.checkpoint.settings.labels
    if labels.logits == 1:
        return SCORE
    return LEVEL if labels.grades is None else GRADE


def _claim(study: Study) -> Finding:
    found, what = restored(study), study.asked.said
    return beyond(
        "patch_matching_restores",
        Text(
            f"标题里共有的词被换掉后，换回 {what.zh}的输出所补回的缺口，多于换回同层其他头的",
            f"Where the shared term is replaced in the title, putting back the output of {what.en} "
            "restores more of the gap than others of their layers do",
        ),
        SOURCE,
        found.difference.value,
        found.difference.samples,
        p=found.p,
        n_queries=study.seen.gap.n_queries,
        unit=SHARE,
        conclusions=CONCLUSIONS,
    )


def _gap(study: Study, context: ProbeContext) -> Finding:
    gap = study.seen.gap
    return _beside(
        "patch_gap",
        Text(
            "把标题里共有的词换成别的词，分数平均下降多少（缺口）",
            "How far the score falls where the shared term is replaced in the title (the gap)",
        ),
        gap.mean,
        gap,
        unit=gap_unit(context),
    )


def _set(study: Study) -> Finding:
    what = study.asked.said
    return _beside(
        "patch_matching_share",
        Text(f"{what.zh}一起补回的缺口", f"The share of the gap restored by {what.en} together"),
        restored(study).target,
        study.seen.gap,
    )


def _full(study: Study) -> Iterator[Finding]:
    what, gap = study.asked.said, study.seen.gap
    if study.plan.left_out:
        found = beyond_controls(study, study.seen.breaking(study.plan.contest.variants))
        yield _beside(
            "patch_matching_breaks",
            Text(
                f"反方向：把 {what.zh}在换词后的输出放进原文，破坏的缺口多于同层其他头的",
                f"The other way: the output of {what.en} without the term, put into the pair as it "
                "is, takes away more of the gap than that of others of their layers",
            ),
            found.difference,
            gap,
            found.p,
        )
        yield _beside(
            "patch_against_leaving_out",
            Text(
                "各个头补回的份额与去掉它损失的份额的等级相关",
                "Rank correlation over heads of the share restored and the share lost without them",
            ),
            study.correlation(),
            gap,
            unit=RHO,
        )
    if study.masked is not None:
        masked = restored(study, study.masked)
        yield _beside(
            "patch_matching_mask",
            Text(
                f"用 [MASK] 顶替时：换回 {what.zh}的输出所补回的缺口，多于换回同层其他头的",
                f"With [MASK] for the term: putting back the output of {what.en} restores more than "
                "others of their layers do",
            ),
            masked.difference,
            study.masked.gap,
            masked.p,
        )


def _beside(
    id: str,
    claim: Text,
    found: Estimate,
    gap: Gap,
    p: float | None = None,
    *,
    unit: Label = SHARE,
) -> Finding:
    samples: Spread = found.samples
    return beyond(
        id,
        claim,
        SOURCE,
        found.value,
        samples,
        p=p,
        n_queries=gap.n_queries,
        unit=unit,
        primary=False,
    )
