"""Which layers stay, what each is worth, and which a student's layers imitate."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Cell, Column, Table
from qt_bert.results import Text
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Plan
from qt_bert.results.plan_evidence import LayerEffect


def layer_map(plan: Plan) -> tuple[Block, ...]:
    """A row a layer of the smaller model."""
    kept = {one.layer: one for one in plan.kept}
    return (
        Table(
            name="plan_layer_map",
            title=Text("层的对应：学生与老师", "Layer map: student and teacher"),
            columns=(
                Column("student", Text("小模型的层", "layer of the student")),
                Column("starts", Text("取自老师的层", "starts as teacher's")),
                Column("imitates", Text("蒸馏时模仿其输出", "imitates the output of")),
                Column("heads", Text("头数", "heads")),
                Column("which", Text("留下的头", "heads that stay"), whole=True),
                Column("units", Text("前馈单元", "feed-forward units")),
            ),
            rows=tuple(
                (
                    f"L{one.student}",
                    f"L{one.starts_as}",
                    f"L{one.imitates}",
                    len(kept[one.starts_as].heads),
                    _heads(kept[one.starts_as], plan.teacher.heads),
                    kept[one.starts_as].units or plan.teacher.units,
                )
                for one in plan.layer_map
            ),
            note=Text(
                "蒸馏时，小模型的每一层从老师的这一层开始，模仿老师下一个保留层之前那一层的输出；最后一层模仿最后一层。",
                "When distilling, each layer starts as this layer of the teacher and imitates the "
                "output of the one just before the teacher's next layer that stays; the last imitates the last.",
            ),
        ),
    )


def _heads(kept: KeptLayer, heads: int) -> Text | str:
    if len(kept.heads) == heads:
        return Text("全部", "all")
    return " ".join(f"H{head}" for head in kept.heads) or Text("无", "none")


def layer_effects(effects: tuple[LayerEffect, ...]) -> tuple[Block, ...]:
    """What leaving out each layer costs, and the turn in which it would go."""
    if not effects:
        return ()
    return (
        Table(
            name="plan_layer_effects",
            title=Text("去掉一层的代价", "What leaving out a layer costs"),
            columns=(
                Column("layer", Text("层", "layer")),
                Column(
                    "heads",
                    Text("只去掉它的头，损失增加", "loss added without its heads"),
                    digits=4,
                ),
                Column(
                    "block", Text("去掉整层，损失增加", "loss added without all of it"), digits=4
                ),
                Column("turn", Text("第几个去掉", "turn to go")),
            ),
            rows=tuple(map(_row, effects)),
            note=Text(
                "在发现集上，每次只去掉一层；整层去掉时，输入原样传到下一层。“第几个去掉”是一层一层地去、每次重新"
                "测量得到的顺序。",
                "On discovery, one layer at a time; without all of a layer its input is passed on as it "
                "is. The turns come from taking out one layer after the other, measured anew each time.",
            ),
            folded=True,
        ),
    )


def _row(one: LayerEffect) -> tuple[Cell, ...]:
    return (f"L{one.layer}", one.heads, one.block, one.turn)
