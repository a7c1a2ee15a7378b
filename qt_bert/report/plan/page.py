"""`plan.html`: the plan's section alone, one file with everything inside."""

from __future__ import annotations

from pathlib import Path

from qt_bert.files import atomic_write
from qt_bert.report.page import page
from qt_bert.report.plan.blocks import plan_blocks
from qt_bert.report.section import Drawn, Section
from qt_bert.results import Text
from qt_bert.results.plan import Plan
from qt_bert.study import RunFolder
from qt_bert.study.plan_alone import PAGE

TITLE = Text("缩小模型的计划", "The plan of a smaller model")
_HEADING = Text("缩小相关性模型的计划", "Plan of a smaller relevance model")
_FOOTER = Text(
    "由 qt_bert 生成。同样的数字在 plan.json 中。",
    "Made by qt_bert. The same numbers stand in plan.json.",
)


def render_plan(out: Path) -> Path:
    """Draw `plan.html` beside the `plan.json` of the folder `out`; return its path.

    Raises RunFolderError where the folder holds no plan of this program.
    """
    folder = RunFolder.read(out)
    blocks = plan_blocks(Plan.read(folder.file("plan.json")))
    section = Section(name="plan", order=0, title=TITLE, build=lambda _: blocks)
    target = folder.file(PAGE)
    with atomic_write(target) as temporary:
        drawn = page(folder.record, (), [Drawn(section, blocks)], heading=_HEADING, footer=_FOOTER)
        temporary.write_text(drawn, encoding="utf-8")
    return target
