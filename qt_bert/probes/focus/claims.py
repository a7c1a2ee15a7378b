"""What the article claims of the reading head (2.4.3), as findings in units of focus."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.focus.against import Against, against
from qt_bert.probes.focus.beside import beside
from qt_bert.probes.focus.cls_row import FOCUS
from qt_bert.probes.focus.study import Study
from qt_bert.probes.focus.words import (
    AVERTED,
    FOCUS_CONCLUSIONS,
    LESS_AVERTED,
    LOSS_CONCLUSIONS,
    OF_READER,
    RISES_LESS,
    SOURCE,
    STEERED_AWAY,
    UNIT,
)
from qt_bert.probes.naming import average, one_sided_p
from qt_bert.results.probe import Finding, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

NO_READER: FloatArray = np.empty(0)


def findings(study: Study, context: Context) -> list[Finding]:
    """The two claims, and what stands beside them."""
    return [_focus(study, context), _needs_matching(study, context), *beside(study, context)]


def _focus(study: Study, context: Context) -> Finding:
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
        replace(SOURCE, value="> 0"),
        found.value,
        found.samples,
        p=float(one_sided_p(per_query)) if found.n_queries > 1 else None,
        n_queries=found.n_queries,
        unit=UNIT,
        conclusions=FOCUS_CONCLUSIONS | ({"not reproduced": AVERTED} if found.value < 0 else {}),
        sets=OF_READER,
    )


def _needs_matching(study: Study, context: Context) -> Finding:
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    nothing = average(NO_READER, 0, 0)
    found, before = Against(nothing, nothing, None), nothing
    if reader is not None and outcome is not None:
        found = against(outcome, reader.head, context)
        before = average(outcome.rows[:, 0, reader.head, FOCUS], 0, 0)
    return beyond(
        "reader_needs_matching",
        Text(
            f"去掉低层 {len(study.matching)} 个匹配头后，这个头的关注度比去掉同层其他头下降更多",
            f"Without the {len(study.matching)} matching heads below, this head loses more focus "
            "than without others of their layers",
        ),
        replace(SOURCE, value="< 0"),
        found.difference.value,
        found.difference.samples,
        p=found.p,
        n_queries=found.difference.n_queries,
        side="below",
        unit=UNIT,
        conclusions=loss_conclusions(found, before.value),
        sets=(*OF_READER, "matching_below"),
    )


def loss_conclusions(found: Against, focus: float) -> dict[Verdict, Text]:
    """What follows of the second claim for a head of this `focus`, as its change and sign allow."""
    said = dict(LOSS_CONCLUSIONS)
    if found.change.value >= 0:
        said["reproduced"] = RISES_LESS
    elif focus <= 0:
        said["reproduced"] = LESS_AVERTED
    if found.difference.value > 0 and found.change.value > 0:
        said["not reproduced"] = STEERED_AWAY
    return said
