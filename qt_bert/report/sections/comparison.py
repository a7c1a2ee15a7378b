"""Two models side by side."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block
from qt_bert.report.comparison.behaviours import both_behaviours
from qt_bert.report.comparison.findings import both_findings
from qt_bert.report.comparison.metrics import headline_bars, metrics_table, models, most_different
from qt_bert.report.comparison.source import (
    read_compared,
    read_compared_probes,
    read_comparison,
)
from qt_bert.report.evaluation.source import read_evaluation
from qt_bert.report.probes.source import read_probes
from qt_bert.report.section import Section
from qt_bert.results import Text
from qt_bert.study import RunFolder


def _build(folder: RunFolder) -> Sequence[Block] | None:
    comparison = read_comparison(folder)
    a, b = read_evaluation(folder), read_compared(folder)
    if comparison is None or a is None or b is None:
        return None
    first, second = read_probes(folder), read_compared_probes(folder)
    return (
        models(comparison),
        metrics_table(comparison, b),
        *headline_bars(comparison, a, b),
        *both_behaviours(comparison, first, second),
        *both_findings(comparison, first, second),
        *most_different(comparison),
    )


SECTION = Section(
    name="comparison", order=20, title=Text("两个模型的比较", "Two models compared"), build=_build
)
