"""What stands beside the claims about the reading head: the same otherwise counted, or of other heads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.focus.against import against
from qt_bert.probes.focus.cls_row import ENTROPY, FOCUS, WITHIN
from qt_bert.probes.focus.contests import Outcome
from qt_bert.probes.focus.study import Study
from qt_bert.probes.focus.words import OF_READER, SOURCE, UNIT
from qt_bert.probes.naming import Average, average, one_sided_p
from qt_bert.results.probe import Finding
from qt_bert.text import Text


def beside(study: Study, context: Context) -> Iterable[Finding]:
    """Of the chosen head, where there is one; with heads left out, where there are such."""
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    if reader is None:
        return
    yield _beyond_sides(study, context, reader)
    if outcome is not None:
        yield from _without_heads(study, context, reader, outcome)
        yield from _other_controls(study, context, reader)


def _beyond_sides(study: Study, context: Context, reader: Head) -> Finding:
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


def _without_heads(
    study: Study, context: Context, reader: Head, outcome: Outcome
) -> Iterable[Finding]:
    yield from _relative(context, reader, outcome)
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
    yield from _of_most_focused(study, context, reader, outcome)


def _relative(context: Context, reader: Head, outcome: Outcome) -> Iterable[Finding]:
    """The article's way of counting, where there is a focus to lose."""
    before = average(outcome.rows[:, 0, reader.head, FOCUS], context.resamples, context.seed)
    if before.value > 0:
        yield _aside(
            "reader_focus_relative",
            Text(
                "去掉匹配头后关注度的相对变化（与原模型相比）",
                "Relative change of its focus without the matching heads, against the whole model",
            ),
            against(outcome, reader.head, context).change.over(before),
            None,
            "below",
            unit="",
        )


def _of_most_focused(
    study: Study, context: Context, reader: Head, outcome: Outcome
) -> Iterable[Finding]:
    """The second claim of another head, where the head that matters most is not the most focused."""
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
            sets=(),
        )


def _steered(study: Study, context: Context, reader: Head, outcome: Outcome) -> Finding:
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


def _other_controls(study: Study, context: Context, reader: Head) -> Iterable[Finding]:
    """Under --full: heads as loud as the matching ones, and mean head outputs instead of zeros."""
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
    sets: tuple[str, ...] = OF_READER,
) -> Finding:
    return beyond(
        id,
        claim,
        SOURCE,
        found.value,
        found.samples,
        p=p,
        n_queries=found.n_queries,
        side=side,
        unit=unit,
        primary=False,
        sets=sets,
    )
