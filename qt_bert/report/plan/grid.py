"""The grid of budgets: what each is expected to cost, what was measured, and what it saves."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Badge, Block, Cell, Column, Prose, Table
from qt_bert.report.plan.words import MEGABYTE, change, expected, measured_on, ratio
from qt_bert.results import Text
from qt_bert.results.plan_evidence import TESTED, GridRow, PlanEvidence
from qt_bert.results.text import counted

_INSIDE = Badge(Text("在区间内", "inside"), "good")
_OUTSIDE = Badge(Text("在区间外", "outside"), "bad")


def grid(evidence: PlanEvidence) -> tuple[Block, ...]:
    """A row a budget, and how many came out as predicted."""
    if not evidence.grid:
        return ()
    where = measured_on(evidence)
    return (
        Table(
            name="plan_grid",
            title=Text("各种预算：质量、速度与大小", "Budgets: quality, speed, size"),
            columns=(
                Column("of", Text("保留", "kept")),
                Column("kept", Text("留下", "kept")),
                Column("expected", Text("预计 ρ 变化 [预测区间]", "ρ expected [prediction]")),
                Column("measured", Text("实测 ρ 变化 [95% 区间]", "ρ measured [95 % interval]")),
                Column("inside", Text("预计与实测", "as predicted?")),
                Column("latency", Text("单条延迟（倍）", "latency (×)")),
                Column("throughput", Text("批量吞吐（倍）", "throughput (×)")),
                Column("parameters", Text("参数", "parameters")),
                Column(
                    "megabytes",
                    Text("内存与磁盘（MB，float16）", "memory, disk (MB, float16)"),
                    digits=1,
                ),
            ),
            rows=tuple(map(_row, evidence.grid)),
            note=Text(
                f"都是不重新训练的结果；实测取自{where.zh}。“预计”在发现集上得出：在一半查询上选，在另一半上看，"
                "两次合并，因此不含挑中运气的成分。预测区间（95%）是新的一批查询上会量到的范围，含三份误差：估计"
                "自身的、新样本的、以及换一批查询会选出另一个计划的。延迟与吞吐是与原模型在同一次运行中交替计时"
                "之比，方括号内为 95% 区间。",
                f"All without training; measured on {where.en}. “Expected” is from discovery: chosen on one half of the queries, "
                "read on the other, both readings together, so that no luck of the draw is in it; a "
                "change on new queries should lie in the prediction interval 95 times in 100, which holds "
                "three errors: the estimate's own, the new sample's, and that other queries would have "
                "chosen another plan. Latency and throughput are "
                "ratios to the whole model, timed in turns in one run, with 95 % intervals.",
            ),
            grouped=True,
        ),
        *_how_many(evidence.grid),
    )


def _row(row: GridRow) -> tuple[Cell, ...]:
    inside = row.inside()
    speed = row.speed
    return (
        Text("部分头", "Some of the heads")
        if row.of == "heads"
        else Text("部分层", "Some of the layers"),
        f"{row.kept} ({100 * row.share:.0f} %)",
        expected(row.expected.get(TESTED)),
        change(row.measured.get(TESTED)),
        None if inside is None else _INSIDE if inside else _OUTSIDE,
        None if speed is None else ratio(speed.latency),
        None if speed is None else ratio(speed.throughput),
        row.size.parameters,
        row.size.stored / MEGABYTE,
    )


def _how_many(rows: Sequence[GridRow]) -> tuple[Block, ...]:
    known = [row for row in rows if row.inside() is not None]
    if not known:
        return ()
    outside = [row for row in known if not row.inside()]
    inside = len(known) - len(outside)
    zh = f"{len(known)} 个预算中有 {inside} 个的实测值落在预测区间内"
    en = f"{inside} of {counted(len(known), 'budget')} came out inside the prediction interval"
    if outside:
        names = [(_stays(row.of, row.kept), row) for row in outside]
        zh += "；在外面的：" + "、".join(one.zh for one, _ in names)
        en += "; outside: " + ", ".join(one.en for one, _ in names)
    return (Prose(body=Text(f"{zh}。", f"{en}.")),)


def rivals(evidence: PlanEvidence) -> tuple[Block, ...]:
    """How other ways to choose measure up, to open."""
    if not evidence.rivals:
        return ()
    where = measured_on(evidence)
    return (
        Table(
            name="plan_rivals",
            title=Text("同样的预算，换一种选法", "The same budgets, chosen in other ways"),
            columns=(
                Column("budget", Text("预算", "budget")),
                Column("way", Text("怎样选", "way")),
                Column("change", Text("ρ 的变化 [95% 区间]", "change of ρ [95 % interval]")),
                Column(
                    "ahead", Text("本计划高出 [95% 区间]", "this plan ahead by [95 % interval]")
                ),
            ),
            rows=tuple(
                (_stays(one.of, one.kept), one.name, change(one.measured), change(one.ahead))
                for one in sorted(evidence.rivals, key=lambda one: (one.of, -one.kept))
            ),
            note=Text(
                f"在{where.zh}上实测，不重新训练；与本计划的差按查询配对。",
                f"Measured on {where.en}, without training; differences are paired over queries.",
            ),
            grouped=True,
            folded=True,
        ),
    )


def _stays(of: str, kept: int) -> Text:
    if of == "heads":
        return Text(f"保留 {kept} 个头", f"{counted(kept, 'head')} kept")
    return Text(f"保留 {kept} 层", f"{counted(kept, 'layer')} kept")
