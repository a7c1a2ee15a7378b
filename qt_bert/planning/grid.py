"""The grid of budgets: what goes under each, in which order, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qt_bert.ablation.interventions import Intervention
from qt_bert.data.pairs import Pair
from qt_bert.models.heads import Head
from qt_bert.models.pruned import Units
from qt_bert.planning.choice import HeadPath, LayerPath, choose_heads, choose_layers
from qt_bert.planning.honest import Prediction
from qt_bert.planning.prune import kept_by, names_of_removal, removal_of
from qt_bert.planning.runs import MetricChange, Removal, losses_of
from qt_bert.planning.shapes import (
    FLOAT16_BYTES,
    Form,
    count_kept,
    form_of,
    forms_within,
    parameter_costs,
)
from qt_bert.planning.task import PlanTask
from qt_bert.planning.timing import SpeedTable, forms_in_time
from qt_bert.progress import progress
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Expected, GridRow, LayerEffect, Measured, Size

# Orders in which heads and layers go: of each budget the first so many.


LARGEST_ROUND = 1 / 3
"""Of all heads: how many go at most in a further round."""


def heads_path(
    task: PlanTask,
    out: int,
    pairs: Sequence[Pair],
    *,
    gone: tuple[int, ...] = (),
    work: Path | None = None,
) -> HeadPath:
    """`out` heads in the rounds of the task's effort, the layers `gone` left out already.

    With all layers there, the first round is `task.singles`, measured once.
    """
    pool = (task.form.layers - len(gone)) * task.teacher.heads
    first = None if gone else task.singles
    rounds = task.effort.rounds
    runs = _runs(pool, out, rounds) - (0 if first is None else 1 + pool)
    with progress(runs * len(pairs), "choosing heads", "runs") as shown:
        return choose_heads(
            task.scorer,
            pairs,
            out,
            mask=task.mask,
            skipped=gone,
            rounds=rounds,
            first=first,
            work=_below(work, "heads", out, *gone),
            shown=shown,
        )


def longer(
    task: PlanTask, path: HeadPath, out: int, pairs: Sequence[Pair], work: Path | None = None
) -> HeadPath:
    """`path` continued to `out` heads, in as few further rounds as take no more than a third at a time."""
    more = out - len(path.order)
    if more <= 0:
        return path
    rest = [head for head in task.scorer.checkpoint.shape.all_heads if head not in path.order]
    rounds = math.ceil(more / max(1, int(LARGEST_ROUND * task.form.heads)))

    def with_gone(heads: Iterable[Head]) -> Intervention:
        return task.mask([*path.order, *heads])

    with progress(_runs(len(rest), more, rounds) * len(pairs), "more heads", "runs") as shown:
        further = choose_heads(
            task.scorer,
            pairs,
            more,
            mask=with_gone,
            among=rest,
            rounds=rounds,
            work=_below(work, "heads", len(path.order), "to", out),
            shown=shown,
        )
    last = path.rounds[-1] + 1
    return replace(
        path,
        order=path.order + further.order,
        rounds=path.rounds + tuple(last + number for number in further.rounds),
        cost=path.cost + further.cost,
    )


def layers_path(
    task: PlanTask, out: int, pairs: Sequence[Pair], work: Path | None = None
) -> LayerPath:
    """`out` layers to go, each time the least harmful."""
    layers = task.form.layers
    # Each time the whole model and every layer that is left; first the layers' heads alone, too.
    runs = layers + sum(1 + layers - turn for turn in range(out))
    with progress(runs * len(pairs), "choosing layers", "runs") as shown:
        return choose_layers(
            task.scorer, pairs, out, mask=task.mask, work=_below(work, "layers"), shown=shown
        )


def _runs(pool: int, out: int, rounds: int) -> int:
    """Variants that rounds of equal size run, the whole model among them each time."""
    sizes = [out // rounds + (number < out % rounds) for number in range(rounds)]
    sizes = [size for size in sizes if size]
    return sum(1 + pool - sum(sizes[:number]) for number in range(len(sizes)))


def _below(work: Path | None, *names: object) -> Path | None:
    return None if work is None else work / "-".join(map(str, names))


# What goes under a budget: heads, layers, or a shape that is small or fast enough.


@dataclass(frozen=True)
class Chosen:
    """What stays: `kept`, with `units` where feed-forwards are narrower, and `removal`, what goes.

    `cost` is what choosing heads took, in sweeps over all single heads.
    """

    kept: tuple[KeptLayer, ...]
    removal: Removal
    units: Units | None = None
    cost: float | None = None


def forms_asked(task: PlanTask, speeds: SpeedTable) -> tuple[Form, ...]:
    """The forms to choose from: the one that the budget names, or those that meet it.

    A budget of latency is met by `speeds`. Raises ArgumentError for a budget that cannot be met.
    """
    whole, per_layer = task.form, task.teacher.heads
    kind = task.budget.kind_of
    if kind == "heads":
        return (Form(whole.layers, count_kept(task.budget, whole.heads), whole.units),)
    if kind == "layers":
        kept = count_kept(task.budget, whole.layers)
        return (Form(kept, kept * per_layer, whole.units),)
    if kind == "latency":
        return forms_in_time(task, speeds)
    checkpoint = task.scorer.checkpoint
    return forms_within(task.budget, parameter_costs(checkpoint.model, checkpoint.family), whole)


def choose(
    task: PlanTask, forms: Sequence[Form], pairs: Sequence[Pair], work: Path | None = None
) -> Chosen:
    """What stays in the best of `forms`, chosen on `pairs`: the one of least loss there."""
    found = [_choose_one(task, form, pairs, work) for form in forms]
    if len(found) == 1:
        return found[0]
    return found[int(np.argmin(_mean_losses(task, found, pairs)))]


def _choose_one(task: PlanTask, form: Form, pairs: Sequence[Pair], work: Path | None) -> Chosen:
    """Layers first; of those that stay, heads; then units."""
    gone: tuple[int, ...] = ()
    if form.layers < task.form.layers:
        out = task.form.layers - form.layers
        gone = layers_path(task, out, pairs, work).order
    heads, cost = _heads_out(task, form, gone, pairs, work)
    removal = removal_of(heads, gone)
    kept = kept_by(removal, task.teacher, form.units)
    return Chosen(kept, removal, task.units_of(kept, pairs), cost)


def _heads_out(
    task: PlanTask, form: Form, gone: tuple[int, ...], pairs: Sequence[Pair], work: Path | None
) -> tuple[tuple[Head, ...], float | None]:
    out = form.layers * task.teacher.heads - form.heads
    if not out:
        return (), None
    path = heads_path(task, out, pairs, gone=gone, work=work)
    return path.order, path.cost


def _mean_losses(task: PlanTask, found: Sequence[Chosen], pairs: Sequence[Pair]) -> list[float]:
    """The mean loss of each, its weights really removed, as `losses_of` has it for heads too."""
    texts = [(pair.query, pair.title) for pair in pairs]
    smaller = (task.pruned(one.kept, one.units) for one in found)
    logits = np.stack([one.fresh().logits(texts) for one in (task.scorer, *smaller)])
    names = ["whole", *(str(place) for place in range(len(found)))]
    measured = losses_of(logits, names, pairs, task.scorer.checkpoint.settings.labels)
    return [measured.mean(name) for name in names[1:]]


# The grid of budgets: heads kept, layers kept, and what each removes.


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
    measured: Mapping[Removal, Mapping[str, MetricChange]],
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


def as_measured(found: Mapping[str, MetricChange]) -> dict[str, Measured]:
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
