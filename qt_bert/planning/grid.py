"""The grid of budgets: heads kept, layers kept, and what each removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.pairs import Pair
from qt_bert.planning.budget import count_kept
from qt_bert.planning.choice.heads import HeadPath
from qt_bert.planning.choice.honest import Prediction
from qt_bert.planning.choice.layers import LayerPath
from qt_bert.planning.choice.measure import Change, Removal
from qt_bert.planning.paths import heads_path, layers_path, longer
from qt_bert.planning.removals import kept_by, names_of_removal, removal_of
from qt_bert.planning.shapes import FLOAT16_BYTES, Form, form_of, parameter_costs
from qt_bert.planning.task import PlanTask
from qt_bert.planning.timing import SpeedTable
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan_evidence import Expected, GridRow, LayerEffect, Measured, Size


@dataclass(frozen=True)
class Grid:
    """The budgets chosen on all of discovery: heads and layers, most kept first."""

    path: HeadPath
    layer_path: LayerPath | None
    heads: tuple[Removal, ...]
    layers: tuple[Removal, ...]

    @property
    def removals(self) -> tuple[Removal, ...]:
        """Heads first, then layers."""
        return self.heads + self.layers


def head_counts(task: PlanTask) -> list[int]:
    """How many heads the budgets of the grid keep, most first."""
    total = task.form.heads
    counts = {round(share * total) for share in task.effort.heads}
    return sorted((n for n in counts if 1 <= n < total), reverse=True)


def layer_counts(task: PlanTask) -> list[int]:
    """How many layers the budgets of the grid keep, most first."""
    layers, effort = task.form.layers, task.effort
    least = max(1, round(effort.layers * layers))
    steps = np.linspace(least, layers - 1, effort.counts).round()
    return sorted({int(n) for n in steps if 1 <= n < layers}, reverse=True)


def choose_grid(task: PlanTask) -> Grid:
    """What each budget removes, chosen on all of discovery: one path of heads, one of layers."""
    pairs = task.discovery.pairs
    heads, path = grid_heads(task, pairs, task.work)
    layers, layer_path = grid_layers(task, pairs, task.work)
    return Grid(path, layer_path, heads, layers)


def grid_heads(
    task: PlanTask, pairs: Sequence[Pair], work: Path | None = None
) -> tuple[tuple[Removal, ...], HeadPath]:
    """What the budgets of heads remove, the first so many of one path, chosen on `pairs`.

    Where heads were asked for, the path begins with the rounds of that budget.
    """
    counts, total = head_counts(task), task.form.heads
    deepest = total - min(counts)
    first = deepest
    if task.budget.kind_of == "heads":
        first = min(deepest, total - count_kept(task.budget, total))
    path = longer(task, heads_path(task, first, pairs, work=work), deepest, pairs, work)
    return tuple(removal_of(path.order[: total - kept]) for kept in counts), path


def grid_layers(
    task: PlanTask, pairs: Sequence[Pair], work: Path | None = None
) -> tuple[tuple[Removal, ...], LayerPath | None]:
    """What the budgets of layers remove; none where the model has a single one."""
    counts = layer_counts(task)
    if not counts:
        return (), None
    path = layers_path(task, task.form.layers - min(counts), pairs, work)
    return tuple(removal_of(blocks=path.order[: task.form.layers - kept]) for kept in counts), path


def layer_effects(grid: Grid) -> tuple[LayerEffect, ...]:
    """What each layer is worth, and when it goes."""
    path = grid.layer_path
    if path is None:
        return ()
    turns = {layer: turn for turn, layer in enumerate(path.order, start=1)}
    return tuple(
        LayerEffect(layer=layer, heads=heads, block=block, turn=turns.get(layer))
        for layer, (heads, block) in enumerate(zip(path.heads, path.blocks, strict=True))
    )


def grid_rows(
    task: PlanTask,
    grid: Grid,
    speeds: SpeedTable,
    expected: Mapping[Removal, Mapping[str, Prediction]],
    measured: Mapping[Removal, Mapping[str, Change]],
) -> tuple[GridRow, ...]:
    """The grid with everything that is known of each budget."""
    rows = []
    for removal in grid.removals:
        kept = kept_by(removal, task.teacher)
        of_heads = not removal.blocks
        count = sum(len(one.heads) for one in kept) if of_heads else len(kept)
        total = task.form.heads if of_heads else task.form.layers
        rows.append(
            GridRow(
                of="heads" if of_heads else "layers",
                kept=count,
                share=count / total,
                removed=names_of_removal(removal),
                size=size_of(task, kept),
                speed=speeds.of(kept),
                expected=as_expected(expected.get(removal, {})),
                measured=as_measured(measured.get(removal, {})),
            )
        )
    return tuple(rows)


def size_of(task: PlanTask, kept: Sequence[KeptLayer]) -> Size:
    """Parameters and bytes of a model that keeps `kept`."""
    return _size(task, form_of(kept, task.teacher))


def teacher_size(task: PlanTask) -> Size:
    """Parameters and bytes of the whole model."""
    return _size(task, task.form)


def _size(task: PlanTask, form: Form) -> Size:
    checkpoint = task.scorer.checkpoint
    costs = parameter_costs(checkpoint.model, checkpoint.family)
    parameters = round(costs.of(form))
    return Size(
        parameters=parameters,
        share=parameters / costs.of(task.form),
        stored=FLOAT16_BYTES * parameters,
    )


def as_expected(found: Mapping[str, Prediction]) -> dict[str, Expected]:
    """Predictions as plain data."""
    return {name: Expected(**vars(one)) for name, one in found.items()}


def as_measured(found: Mapping[str, Change]) -> dict[str, Measured]:
    """Changes as plain data, without their resamples."""
    return {
        name: Measured(
            base=one.base,
            value=one.value,
            change=one.absolute,
            ci_low=one.ci_low,
            ci_high=one.ci_high,
        )
        for name, one in found.items()
    }
