"""The table of baselines as a probe's result."""

from __future__ import annotations

from typing import Any

from qt_bert.codec import encode
from qt_bert.probes.base import Context
from qt_bert.probes.baselines.claims import findings
from qt_bert.probes.baselines.figures import figures
from qt_bert.probes.baselines.table import RHO, Table
from qt_bert.probes.baselines.words import NAMES, NOTHING
from qt_bert.probes.naming import said_only
from qt_bert.results.baselines import CROSS_ENCODER, WORDS
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def result(table: Table | None, context: Context) -> ProbeResult:
    """Findings and figures; a sentence alone where there is no table."""
    if table is None:
        return said_only("baselines", NOTHING, context)
    return ProbeResult(
        probe="baselines",
        model=context.model_ref,
        pairs=context.pairs_ref,
        settings=_settings(table),
        summary=_summary(table),
        findings=tuple(findings(table)),
        sets={},
        figures=figures(table),
    )


def _summary(table: Table) -> Text:
    best = table.measured[CROSS_ENCODER][RHO].value or float("nan")
    others = {
        name: table.measured[name][RHO].value or float("nan")
        for name in table.names
        if table.stored.record.row(name).architecture != CROSS_ENCODER
    }
    second = max(others, key=lambda name: others[name])
    return Text(
        f"拼接 BERT 的 ρ 为 {best:.3f}；其余做法中最好的是"
        f"{NAMES[second].zh}：{others[second]:.3f}。每个模型只训练了一个种子。",
        f"The cross-encoder reaches a ρ of {best:.3f}; of the ways that are no such BERT "
        f"the best is {NAMES[second].en}: {others[second]:.3f}. One seed each.",
    )


def _settings(table: Table) -> dict[str, Any]:
    record = table.stored.record
    asked = "" if any(one.model == WORDS and one.head for one in record.boundary) else WORDS
    return {
        "recipe": record.recipe,
        "pretraining": [encode(one) for one in record.pretraining],
        "rows": [encode(one) for one in record.rows],
        "boundary_heads": [encode(one) for one in record.boundary],
        "matching_heads": [encode(one) for one in record.matching],
        "not_asked_for_heads": asked,
        "lstm": table.lstm,
    }
