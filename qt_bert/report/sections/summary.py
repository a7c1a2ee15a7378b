"""What a reader in a hurry needs: the grades in one line, and what was found in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block, Prose
from qt_bert.report.comparison.source import read_comparison
from qt_bert.report.comparison.summary import beside
from qt_bert.report.evaluation.source import read_evaluation
from qt_bert.report.evaluation.summary import in_one_line
from qt_bert.report.probes.headlines import headlines
from qt_bert.report.probes.source import read_probes
from qt_bert.report.section import Section
from qt_bert.results import Text
from qt_bert.study import RunFolder


def _build(folder: RunFolder) -> Sequence[Block] | None:
    evaluation, comparison = read_evaluation(folder), read_comparison(folder)
    blocks: list[Block] = []
    if evaluation is not None:
        blocks.append(Prose(body=in_one_line(evaluation)))
    if comparison is not None:
        blocks.append(Prose(body=beside(comparison)))
    blocks += headlines(read_probes(folder))
    return blocks or None


SECTION = Section(name="summary", order=0, title=Text("摘要", "Summary"), build=_build)
