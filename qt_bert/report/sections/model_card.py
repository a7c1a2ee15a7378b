"""The checkpoint's own card."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block, Prose
from qt_bert.report.evaluation.source import read_evaluation
from qt_bert.report.section import Section
from qt_bert.results import Text
from qt_bert.study import RunFolder


def _build(folder: RunFolder) -> Sequence[Block] | None:
    evaluation = read_evaluation(folder)
    if evaluation is None or not evaluation.card:
        return None
    return (Prose(body=evaluation.card, preformatted=True),)


SECTION = Section(name="model_card", order=900, title=Text("模型卡片", "Model card"), build=_build)
