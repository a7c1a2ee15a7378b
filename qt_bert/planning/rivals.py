"""Other ways to choose what goes, at the budgets of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.planning.choice.layers import even_layers, lowest_layers
from qt_bert.planning.choice.measure import Change, Removal
from qt_bert.planning.choice.rivals import head_rivals
from qt_bert.planning.grid import Grid, as_measured
from qt_bert.planning.removals import removal_of
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress
from qt_bert.results.plan_evidence import TESTED, GridRow, RivalRow
from qt_bert.results.text import Text

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
    rows: Sequence[GridRow], removals: Removals, measured: Mapping[Removal, Mapping[str, Change]]
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


def lead(ours: Change, theirs: Change) -> Change:
    """How much better `ours` is, paired over the resamples of the queries."""
    samples = ours.samples - theirs.samples
    low, high = _ends([ours, theirs], samples)
    return Change(theirs.value, ours.value, ours.value - theirs.value, low, high, samples)


def averaged(found: Sequence[Mapping[str, Change]], metric: str) -> Change | None:
    """The mean over draws, its interval over queries; None where the metric is not defined."""
    drawn = [one[metric] for one in found if metric in one]
    if not drawn:
        return None
    samples = np.mean([one.samples for one in drawn], axis=0)
    low, high = _ends(drawn, samples)
    return Change(
        base=drawn[0].base,
        value=float(np.mean([one.value for one in drawn])),
        absolute=float(np.mean([one.absolute for one in drawn])),
        ci_low=low,
        ci_high=high,
        samples=samples,
    )


def _ends(of: Sequence[Change], samples: FloatArray) -> tuple[float | None, float | None]:
    """The interval of what was made of these changes; none where one of them has none."""
    if any(one.ci_low is None for one in of):
        return None, None
    return percentile_interval(samples) or (None, None)
