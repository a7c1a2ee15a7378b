"""Other ways to choose what goes, and the article's rule of thumb, at the budgets of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qt_bert.models.heads import Head
from qt_bert.planning.choice import even_layers, head_rivals, lowest_layers
from qt_bert.planning.grid import Grid, as_measured
from qt_bert.planning.prune import kept_by, removal_of
from qt_bert.planning.runs import MetricChange, Removal
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan import TESTED, GridRow, RivalRow, Rule
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text

# Other ways to choose what goes, at the budgets of the grid.


CHOSEN, LOW = "chosen", "low_layers"

NAMES: dict[str, Text] = {
    CHOSEN: Text("按本计划选", "as this plan chooses"),
    "single": Text("单个头的效应，不重测", "effects of single heads, not measured anew"),
    "gradient": Text("梯度重要性", "gradient importance"),
    "even": Text("等间隔保留", "evenly spaced"),
    LOW: Text("保留低层（文章的经验法则）", "low layers kept (the article's rule)"),
    "matched": Text("随机，各层数量与计划相同", "random, as many of each layer as here"),
    "random": Text("随机", "random"),
}
"""By their names, in the order in which they are drawn."""

DRAWN = ("matched", "random")
"""Those that choose nothing."""

Removals = dict[str, list[list[Removal]]]
"""Way to choose → for each budget what it removes: once, or once a draw."""


def head_orders(task: PlanTask, grid: Grid) -> dict[str, list[tuple[Head, ...]]]:
    """The rivals' orders of heads, chosen on discovery. Gradients are taken in float32."""
    with progress(None, "rivals", "pairs") as shown:
        return head_rivals(
            task.exact(),
            task.discovery.pairs,
            draws=task.effort.draws,
            seed=task.seed,
            chosen=grid.path,
            shown=shown,
        )


def head_removals(grid: Grid, orders: Mapping[str, Sequence[Sequence[Head]]]) -> Removals:
    """What each way removes: at each budget as many heads as the plan."""
    sizes = [len(one.heads) for one in grid.heads]
    found: Removals = {CHOSEN: [[one] for one in grid.heads]}
    for name, drawn in orders.items():
        found[name] = [[removal_of(order[:size]) for order in drawn] for size in sizes]
    return found


def layer_removals(grid: Grid, layers: int) -> Removals:
    """What each way removes of `layers` layers: at each budget as many as the plan."""
    kept = [layers - len(one.blocks) for one in grid.layers]
    return {
        CHOSEN: [[one] for one in grid.layers],
        "even": [[all_but(layers, even_layers(layers, n))] for n in kept],
        LOW: [[all_but(layers, lowest_layers(layers, n))] for n in kept],
    }


def all_but(layers: int, kept: Sequence[int]) -> Removal:
    """The blocks of every other layer."""
    return removal_of(blocks=set(range(layers)) - set(kept))


def every_one(removals: Removals) -> list[Removal]:
    """All of them, of all ways and budgets."""
    return [one for budgets in removals.values() for drawn in budgets for one in drawn]


def rival_rows(
    rows: Sequence[GridRow],
    removals: Removals,
    measured: Mapping[Removal, Mapping[str, MetricChange]],
) -> tuple[RivalRow, ...]:
    """How each other way measures up at the budgets `rows`, and how far the plan's is ahead of it."""
    found = []
    for way, budgets in removals.items():
        for row, drawn, [own] in zip(rows, budgets, removals[CHOSEN], strict=True):
            theirs = averaged([measured[one] for one in drawn], TESTED)
            ours = measured[own].get(TESTED)
            if way == CHOSEN or theirs is None or ours is None:
                continue
            plain = as_measured({"theirs": theirs, "ahead": lead(ours, theirs)})
            found.append(
                RivalRow(
                    of=row.of,
                    kept=row.kept,
                    way=way,
                    name=NAMES[way],
                    measured=plain["theirs"],
                    ahead=plain["ahead"],
                )
            )
    return tuple(found)


def lead(ours: MetricChange, theirs: MetricChange) -> MetricChange:
    """How much better `ours` is, paired over the resamples of the queries."""
    samples = ours.samples - theirs.samples
    low, high = _ends([ours, theirs], samples)
    return MetricChange(theirs.value, ours.value, ours.value - theirs.value, low, high, samples)


def averaged(found: Sequence[Mapping[str, MetricChange]], metric: str) -> MetricChange | None:
    """The mean over draws, its interval over queries; None where the metric is not defined."""
    drawn = [one[metric] for one in found if metric in one]
    if not drawn:
        return None
    samples = np.mean([one.samples for one in drawn], axis=0)
    low, high = _ends(drawn, samples)
    return MetricChange(
        base=drawn[0].base,
        value=float(np.mean([one.value for one in drawn])),
        absolute=float(np.mean([one.absolute for one in drawn])),
        ci_low=low,
        ci_high=high,
        samples=samples,
    )


def _ends(of: Sequence[MetricChange], samples: FloatArray) -> tuple[float | None, float | None]:
    """The interval of what was made of these changes; none where one of them has none."""
    if any(one.ci_low is None for one in of):
        return None, None
    return percentile_interval(samples) or (None, None)


# The article's rule of thumb: when distilling, keep more of the low layers' heads.
#
# "BERT 可解释性-从“头”说起", 2.1.


Measured = Mapping[Removal, Mapping[str, MetricChange]]


def rule_removals(
    teacher: TeacherRef, chosen: Removal, orders: Sequence[Sequence[Head]]
) -> list[Removal]:
    """What the rule would remove at the size of `chosen`: the highest layers, then high heads.

    `orders` are orders of all heads in which those of high layers go first.
    """
    layers = teacher.layers
    gone = all_but(layers, lowest_layers(layers, layers - len(chosen.blocks)))
    if not chosen.heads:
        return [gone]
    there = [[head for head in order if head.layer not in gone.blocks] for order in orders]
    found = [removal_of(order[: len(chosen.heads)], gone.blocks) for order in there]
    return list(dict.fromkeys(found))


def rule_of_thumb(
    teacher: TeacherRef, chosen: Removal, removals: Sequence[Removal], measured: Measured
) -> Rule | None:
    """How the rule's removals measure up to `chosen`; None where ρ is not defined."""
    theirs = averaged([measured[one] for one in removals], TESTED)
    ours = measured[chosen].get(TESTED)
    if ours is None or theirs is None:
        return None
    plain = as_measured({"rule": theirs, "chosen": ours, "ahead": lead(ours, theirs)})
    kept = {one.layer: len(one.heads) for one in kept_by(removals[0], teacher)}
    return Rule(
        kept=tuple(kept.get(layer, 0) for layer in range(teacher.layers)),
        measured=plain["rule"],
        chosen=plain["chosen"],
        ahead=plain["ahead"],
    )
