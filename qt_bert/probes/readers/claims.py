"""What the article claims of the reading head (2.4.3), as findings in units of focus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.claims import beyond
from qt_bert.probes.common.averages import Average, average, means
from qt_bert.probes.common.controls import rank_p
from qt_bert.probes.common.naming import one_sided_p
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.readers.cls_row import ENTROPY, FOCUS, WITHIN
from qt_bert.probes.readers.contests import Outcome
from qt_bert.probes.readers.study import Study
from qt_bert.probes.readers.words import (
    AVERTED,
    FOCUS_CONCLUSIONS,
    LOSS_CONCLUSIONS,
    STEERED_AWAY,
    UNIT,
)
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source

ARTICLE = "heads_of_query_title_bert"
NO_READER: FloatArray = np.empty(0)


@dataclass(frozen=True, eq=False)
class Against:
    """A change beyond the mean of its controls, the change itself, and the rank of the one among all.

    Without controls the difference is the change, and there is no p.
    """

    difference: Average
    change: Average
    p: float | None


def against(
    outcome: Outcome,
    head: int,
    context: ProbeContext,
    quantity: int = FOCUS,
    family: str = "matched",
    *,
    below: bool = True,
) -> Against:
    """What leaving the matching heads out does to a head of the layer, beyond the draws of `family`."""
    change = outcome.change(head, quantity)
    control = outcome.control(family, head, quantity)
    expected = control.mean(axis=1) if control.shape[1] else np.zeros(len(change))
    whole = average(change, context.resamples, context.seed)
    return Against(
        average(change - expected, context.resamples, context.seed),
        whole,
        rank_p(whole.value, means(control), below=below),
    )


def findings(study: Study, context: ProbeContext) -> list[Finding]:
    """The two claims, and what stands beside them."""
    found = [_focus(study, context), _needs_matching(study, context)]
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    if reader is None:
        return found
    found.append(_beyond_sides(study, context, reader))
    if outcome is not None:
        found += _beside(study, context, reader, outcome)
        found += _other_controls(study, context, reader)
    return found


def _focus(study: Study, context: ProbeContext) -> Finding:
    reader = study.chosen.head
    per_query = NO_READER if reader is None else study.plain[:, reader.layer, reader.head, FOCUS]
    found = average(per_query, context.resamples, context.seed)
    return beyond(
        "reader_focus",
        Text(
            f"第 {study.layer} 层中去掉后损失最大的头（发现集上选出：{reader or '–'}），"
            "其 [CLS] 偏向查询与标题共有的词（关注度 > 0）",
            f"The head of layer {study.layer} whose absence costs most (chosen on discovery: "
            f"{reader or '–'}) turns [CLS] to the terms that both texts share (focus > 0)",
        ),
        Source(article=ARTICLE, section="2.4.3", value="> 0"),
        found.value,
        found.samples,
        p=float(one_sided_p(per_query)) if found.n_queries > 1 else None,
        n_queries=found.n_queries,
        unit=UNIT,
        conclusions=FOCUS_CONCLUSIONS | ({"not reproduced": AVERTED} if found.value < 0 else {}),
    )


def _needs_matching(study: Study, context: ProbeContext) -> Finding:
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    nothing = average(NO_READER, 0, 0)
    found = Against(nothing, nothing, None)
    if reader is not None and outcome is not None:
        found = against(outcome, reader.head, context)
    return beyond(
        "reader_needs_matching",
        Text(
            f"去掉低层 {len(study.matching)} 个匹配头后，这个头的关注度比去掉同层其他头下降更多",
            f"Without the {len(study.matching)} matching heads below, this head loses more focus "
            "than without others of their layers",
        ),
        Source(article=ARTICLE, section="2.4.3", value="< 0"),
        found.difference.value,
        found.difference.samples,
        p=found.p,
        n_queries=found.difference.n_queries,
        side="below",
        unit=UNIT,
        conclusions=LOSS_CONCLUSIONS
        | ({"not reproduced": STEERED_AWAY} if found.difference.value > 0 else {}),
    )


def _beyond_sides(study: Study, context: ProbeContext, reader: Head) -> Finding:
    per_query = study.plain[:, reader.layer, reader.head, WITHIN]
    found = average(per_query, context.resamples, context.seed)
    return _aside(
        "reader_focus_within",
        Text(
            "同一关注度，扣除这个头偏向查询或标题整体所致的部分",
            "The same focus, less what the head's liking for the query or the title as a whole gives",
        ),
        found,
        float(one_sided_p(per_query)),
    )


def _beside(
    study: Study, context: ProbeContext, reader: Head, outcome: Outcome
) -> Iterable[Finding]:
    found = against(outcome, reader.head, context)
    before = average(outcome.rows[:, 0, reader.head, FOCUS], context.resamples, context.seed)
    if before.value > 0:
        yield _aside(
            "reader_focus_relative",
            Text(
                "去掉匹配头后关注度的相对变化（与原模型相比）",
                "Relative change of its focus without the matching heads, against the whole model",
            ),
            found.change.over(before),
            None,
            "below",
            unit="",
        )
    yield _steered(study, context, reader, outcome)
    entropy = against(outcome, reader.head, context, ENTROPY, below=False)
    yield _aside(
        "reader_scatters",
        Text(
            "去掉匹配头后注意力分散到更多的字（熵上升），超出去掉同层其他头时",
            "Without the matching heads its attention scatters over more characters (entropy "
            "rises), beyond what others of their layers do",
        ),
        entropy.difference,
        entropy.p,
        unit=Text("归一化的熵", "normalised entropy"),
    )
    best = int(np.argmax(np.nan_to_num(study.readers.focus[study.layer], nan=-np.inf)))
    if best != reader.head:
        other = against(outcome, best, context)
        yield _aside(
            "most_focused_needs_matching",
            Text(
                f"该层关注度最高的头（发现集上选出：L{study.layer}H{best}）的同一比较",
                f"The same comparison for the layer's most focused head (chosen on discovery: "
                f"L{study.layer}H{best})",
            ),
            other.difference,
            other.p,
            "below",
        )


def _steered(study: Study, context: ProbeContext, reader: Head, outcome: Outcome) -> Finding:
    """The second claim whatever the focus's sign, which discovery tells."""
    sign = -1 if study.readers.focus[reader] < 0 else 1
    turned = replace(outcome, rows=sign * outcome.rows)
    found = against(turned, reader.head, context)
    return _aside(
        "reader_steered",
        Text(
            "去掉匹配头后，这个头的偏向（不论偏向还是避开共有的词）减弱，超出去掉同层其他头时",
            "Without the matching heads its preference, for the shared terms or against them, "
            "weakens beyond what others of their layers do",
        ),
        found.difference,
        found.p,
        "below",
    )


def _other_controls(study: Study, context: ProbeContext, reader: Head) -> Iterable[Finding]:
    """Under --full: heads as loud as the matching ones, and mean contexts instead of zeros."""
    if study.outcomes["zero"].contest.loud:
        loud = against(study.outcomes["zero"], reader.head, context, family="loud")
        yield _aside(
            "reader_needs_matching_loud",
            Text("同一比较，对照为同样响的头", "The same comparison with heads that are as loud"),
            loud.difference,
            loud.p,
            "below",
        )
    if "mean" in study.outcomes:
        mean = against(study.outcomes["mean"], reader.head, context)
        yield _aside(
            "reader_needs_matching_mean",
            Text("同一比较，以均值代替置零", "The same comparison with mean contexts for zeros"),
            mean.difference,
            mean.p,
            "below",
        )


def _aside(
    id: str,
    claim: Text,
    found: Average,
    p: float | None,
    side: Literal["above", "below"] = "above",
    *,
    unit: Text | str = UNIT,
) -> Finding:
    return beyond(
        id,
        claim,
        Source(article=ARTICLE, section="2.4.3"),
        found.value,
        found.samples,
        p=p,
        n_queries=found.n_queries,
        side=side,
        unit=unit,
        primary=False,
    )
