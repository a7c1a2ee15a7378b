"""The students that a plan is held against: same size, same data, same steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qt_bert.errors import ArgumentError
from qt_bert.planning.choice.layers import even_layers
from qt_bert.planning.distilling.run_distill import DistillJob
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import LayerMatch, Plan, layer_map
from qt_bert.results.text import Text

PLAN, EVEN, GRADES, MIDDLE = "plan", "even", "grades", "middle"

WORDS = {
    PLAN: Text(
        "按方案保留层与头，按方案的层对应迁移", "the plan: its layers and heads, its layer map"
    ),
    EVEN: Text(
        "等间隔保留同样多的层与头，层对应也等间隔",
        "as many layers and heads at even spacing, mapped evenly",
    ),
    GRADES: Text("方案的起点，只学标注，不用教师", "the plan's start, on grades alone"),
    MIDDLE: Text(
        "方案的起点，隐藏状态只从教师中间三分之一的层迁移",
        "the plan's start, hidden states from the teacher's middle third only",
    ),
}
"""What each arm is, for a reader."""

SEEDS = {PLAN: 5, EVEN: 5, GRADES: 3, MIDDLE: 3}
"""Runs of each arm: seeds 0, 1, …; runs of one seed see the data in one order."""


@dataclass(frozen=True)
class ArmJob:
    """One arm: its name and what its runs do."""

    name: str
    job: DistillJob


def arms_of(job: DistillJob) -> tuple[ArmJob, ...]:
    """The plan of `job` first, then its rivals.

    Raises ArgumentError where the loss has no hidden states to leave out, or no teacher at all.
    """
    if not job.loss.asks_the_teacher or not job.loss.hidden:
        raise ArgumentError(
            "--arms compares ways to learn from a teacher: give the loss's `hidden` a weight"
        )
    plan = job.student.plan
    plans = {PLAN: plan, EVEN: even_plan(plan), GRADES: plan, MIDDLE: middle_plan(plan)}
    arms = []
    for name, one in plans.items():
        loss = job.loss.grades_alone() if name == GRADES else job.loss
        student = replace(job.student, plan=one)
        arms.append(ArmJob(name, replace(job, student=student, loss=loss)))
    return tuple(arms)


def even_plan(plan: Plan) -> Plan:
    """As many layers, heads and feed-forward units as `plan` keeps, all at even spacing.

    Heads and units are shared out evenly over the layers; where they do not divide, the lower layers
    have one more. Which units these are is for their gradient importance to say, as in a plan that
    names none. Heads that go leave zeros.
    """
    teacher = plan.teacher
    count = len(plan.kept)
    layers = even_layers(teacher.layers, count)
    heads = _shared(sum(len(one.heads) for one in plan.kept), count)
    units = _shared(sum(one.units or teacher.units for one in plan.kept), count)
    kept = tuple(
        KeptLayer(
            layer=layer,
            heads=_spaced(teacher.heads, number),
            units=None if width == teacher.units else width,
        )
        for layer, number, width in zip(layers, heads, units, strict=True)
    )
    mapped = layer_map(kept, teacher.layers)
    return replace(plan, kept=kept, layer_map=mapped, replacement="zero", units={})


def middle_plan(plan: Plan) -> Plan:
    """`plan` with a layer map into the teacher's middle third alone.

    A student's layer stands for the teacher's layers from the one it starts as to the one it
    imitates. Where some of these lie in the middle third, it imitates the highest of them; else it
    imitates none.
    """
    low, high = middle_third(plan.teacher.layers)
    matches: Sequence[LayerMatch] = [
        replace(match, imitates=min(match.imitates, high))
        for match in plan.layer_map
        if match.starts_as <= high and match.imitates >= low
    ]
    return replace(plan, layer_map=tuple(matches))


def middle_third(layers: int) -> tuple[int, int]:
    """The lowest and highest layer of the middle third: 4 and 7 of twelve."""
    low = layers // 3
    return low, max(low, layers - layers // 3 - 1)


def _shared(total: int, parts: int) -> list[int]:
    """`total` as `parts` whole numbers that differ by at most one, larger ones first."""
    least, more = divmod(total, parts)
    return [least + (place < more) for place in range(parts)]


def _spaced(count: int, kept: int) -> tuple[int, ...]:
    """`kept` of the numbers below `count` at even spacing."""
    return tuple(place * count // kept for place in range(kept))
