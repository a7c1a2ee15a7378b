"""The plan of a smaller model."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block
from qt_bert.report.plan.blocks import plan_blocks
from qt_bert.report.plan.page import TITLE
from qt_bert.report.section import Section
from qt_bert.results.plan import Plan
from qt_bert.study import RunFolder


def _build(folder: RunFolder) -> Sequence[Block] | None:
    stage = folder.record.stages.get("plan")
    path = folder.file("plan/plan.json")
    if stage is None or stage.status != "done" or not path.is_file():
        return None
    return plan_blocks(Plan.read(path))


SECTION = Section(name="plan", order=60, title=TITLE, build=_build)
