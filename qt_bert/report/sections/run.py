"""How this report came about: stages, times, arguments, versions, guards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from qt_bert.report.blocks import Block, Column, Table
from qt_bert.report.section import Section
from qt_bert.results import Text
from qt_bert.results.numbers import plain
from qt_bert.study import RunFolder

_STATES = {
    "done": Text("完成", "done"),
    "running": Text("中断", "interrupted"),
    "pending": Text("未运行", "not run"),
}


def _build(folder: RunFolder) -> Sequence[Block]:
    record = folder.record
    stages = Table(
        name="stages",
        title=Text("各阶段", "Stages"),
        columns=(
            Column("stage", Text("阶段", "stage")),
            Column("status", Text("状态", "status")),
            Column("seconds", Text("用时（秒）", "time (s)"), digits=1),
        ),
        rows=tuple((n, _STATES[s.status], s.seconds) for n, s in record.stages.items()),
    )
    facts = [
        *(("argument", name, value) for name, value in record.inputs.arguments.items()),
        ("argument", "segmenter", record.inputs.segmenter),
        *(("version", name, value) for name, value in record.versions.items()),
        ("version", "source SHA-256", record.source),
        *(("guard", name, value) for name, value in record.guards.items()),
    ]
    return (stages, _facts(facts))


def _facts(facts: Iterable[tuple[str, str, Any]]) -> Table:
    groups = {
        "argument": Text("参数", "Arguments"),
        "version": Text("版本", "Versions"),
        "guard": Text("自检", "Guards"),
    }
    return Table(
        name="run",
        title=Text("参数、版本与自检", "Arguments, versions, guards"),
        columns=(
            Column("group", Text("类别", "group")),
            Column("name", Text("名称", "name")),
            Column("value", Text("值", "value")),
        ),
        rows=tuple((groups[group], name, plain(value)) for group, name, value in facts),
        grouped=True,
        folded=True,
    )


SECTION = Section(name="run", order=950, title=Text("本次运行", "This run"), build=_build)
