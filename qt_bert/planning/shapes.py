"""Smaller shapes: the layers, heads and feed-forward units that each keeps of its teacher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.models.pruned import Units
from qt_bert.planning.choice import choose_layers
from qt_bert.planning.prune import important_units
from qt_bert.planning.task import PlanTask
from qt_bert.results.frontier import StudentShape, shape_plan
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Plan


def candidates(
    layers: int, depths: int, widths: Sequence[float], heads: Sequence[float] = (1.0,)
) -> list[StudentShape]:
    """The shapes to measure for a teacher of so many layers, the teacher's own first: at most `depths`
    numbers of layers, each with the shares `widths` of feed-forward units and `heads` of heads."""
    counts = sorted({int(n) for n in np.linspace(1, layers, depths).round()}, reverse=True)
    return [
        StudentShape(layers=count, units=units, heads=share)
        for count in counts
        for share in heads
        for units in widths
    ]


def layer_order(task: PlanTask, least: int = 1) -> tuple[int, ...]:
    """The layers in the order of removal, down to `least` of them: each time the one that costs least goes."""
    number = task.teacher.layers - least
    return choose_layers(task, number) if number else ()


def plan_for(task: PlanTask, shape: StudentShape, order: Sequence[int]) -> Plan:
    """The plan of a shape: `order` names the layers to remove first; of each other layer the units of greatest
    gradient importance stay, and the heads that cost most when ablated alone.

    Raises ArgumentError for more layers than the teacher has.
    """
    teacher = task.teacher
    if shape.layers > teacher.layers:
        raise ArgumentError(f"--shape {shape}: {teacher.name} has {teacher.layers} layers")
    gone = order[: teacher.layers - shape.layers]
    kept = tuple(
        KeptLayer(
            layer=layer,
            heads=_heads(task, layer, shape.heads),
            units=None if shape.units == 1 else max(1, round(shape.units * teacher.units)),
        )
        for layer in range(teacher.layers)
        if layer not in gone
    )
    units: Units = {}
    if shape.units != 1:
        exact = task.scorer.exact().checkpoint
        units = important_units(exact, kept, task.discovery.pairs)
    return shape_plan(
        teacher, shape, kept, {str(layer): tuple(chosen) for layer, chosen in units.items()}
    )


def _heads(task: PlanTask, layer: int, share: float) -> tuple[int, ...]:
    """The heads that stay in a layer; those that share a key and value stay together."""
    heads, sharing = task.teacher.heads, task.sharing
    if share == 1:
        return tuple(range(heads))
    losses = np.array([task.singles[f"L{layer}H{head}"] for head in range(heads)])
    costs = losses.reshape(-1, sharing).sum(1)
    best = np.argsort(-costs, kind="stable")[: max(1, round(share * len(costs)))]
    return tuple(sorted(int(g) * sharing + n for g in best for n in range(sharing)))
