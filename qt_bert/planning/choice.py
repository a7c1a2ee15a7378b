"""Choosing the heads and layers to remove, least harmful first, for one budget and for a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import without_blocks
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models.pruned import head_parameters, parameter_count
from qt_bert.planning.budgets import count_kept
from qt_bert.planning.prune import kept_by, names_of_removal, removal_of
from qt_bert.planning.runs import Changes, Removal, losses, parts_of
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress
from qt_bert.results.plan import Budget, GridRow, Size


@dataclass(frozen=True)
class HeadPath:
    """An order of heads to remove: each budget removes a prefix of it.

    `order`: heads in the order of removal; `effects`: what ablating each head alone adds to the mean
    loss; `cost`: the variants run, in sweeps over all single heads.
    """

    order: tuple[Head, ...]
    effects: Mapping[Head, float]
    cost: float


START = HeadPath((), {}, 0.0)
"""The path of no head."""


def choose_heads(
    task: PlanTask, number: int, *, rounds: int | None = None, before: HeadPath = START
) -> HeadPath:
    """`number` heads to leave out, chosen on discovery by the exact mean loss of leaving them out.

    Each of the `rounds` (default: those of the task's effort) removes its share, the heads whose removal
    costs least, and the others are measured again: redundant heads, harmless alone, may do harm together
    (Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 4.2). Heads that share a key
    and value go together, by the sum of their losses. `before` is a path to continue; if nothing is left
    out yet, the first round is `task.singles`. The rounds are stored in `task.work` and resumed.

    Raises ArgumentError for a number of heads or of rounds that is out of range, a part of a group of
    heads, and pairs that cannot be judged.
    """
    every, sharing = task.scorer.checkpoint.shape.all_heads, task.sharing
    rounds = task.effort.rounds if rounds is None else rounds
    removed, effects = list(before.order), before.effects
    left = [head for head in every if head not in removed]
    if not 1 <= number <= len(left) or number % sharing or rounds < 1:
        raise ArgumentError(
            f"{number} heads in {rounds} rounds: {sharing} to {len(left)} heads can go, {sharing} at a time"
        )
    each, more = divmod(number // sharing, rounds)
    sizes = [sharing * (each + (turn < more)) for turn in range(rounds)]
    sizes = [size for size in sizes if size]
    pairs = task.discovery.pairs
    known = None if removed else task.singles  # which shows a progress of its own
    reached = f"{len(removed)}-to-{len(removed) + number}" if removed else number
    runs = [1 + len(left) - sum(sizes[:turn]) for turn in range(len(sizes))]
    to_run = sum(runs if known is None else runs[1:])
    ran = 0
    with progress(to_run * len(pairs), "choosing heads", "runs") as shown:
        for turn, size in enumerate(sizes):
            if known is not None and turn == 0:
                measured = known
                effects = {head: measured[str(head)] - measured[NONE.name] for head in left}
            else:
                variants = [
                    Variant(str(head), parts_of([*removed, head], ()), "plan") for head in left
                ]
                folder = task.work / f"heads-{reached}" / f"heads-{turn}"
                measured = losses(task.scorer, pairs, variants, folder, shown)
            ran += len(left)
            left = _by_loss(left, measured, sharing)
            removed, left = [*removed, *left[:size]], left[size:]
    return HeadPath(tuple(removed), effects, before.cost + ran / len(every))


def _by_loss(heads: Sequence[Head], measured: Mapping[str, float], sharing: int) -> list[Head]:
    """Least loss first (summed over heads that share a key), ties by the lower head."""
    together: dict[tuple[int, int], float] = {}
    for layer, head in heads:
        group = layer, head // sharing
        together[group] = together.get(group, 0.0) + measured[f"L{layer}H{head}"]
    return sorted(heads, key=lambda head: (together[head.layer, head.head // sharing], head))


def choose_layers(task: PlanTask, number: int) -> tuple[int, ...]:
    """`number` layers to leave out as whole blocks, in order, chosen on discovery by the exact mean loss.

    Each step removes the block whose removal costs least, then measures all others again: down to one
    layer these are n(n + 1)/2 − 1 variants. The sweeps are stored in `task.work` and resumed. Raises
    ArgumentError for no layer or all of them, and for pairs that cannot be judged.
    """
    shape, pairs = task.scorer.checkpoint.shape, task.discovery.pairs
    if not 1 <= number < shape.layers:
        raise ArgumentError(f"{number} layers: 1 to {shape.layers - 1} of {shape.layers} can go")
    removed: list[int] = []
    # Each time the whole model and every layer that is left.
    runs = sum(1 + shape.layers - turn for turn in range(number))
    with progress(runs * len(pairs), "choosing layers", "runs") as shown:
        for turn in range(number):
            variants = {
                layer: without_blocks((*removed, layer))
                for layer in range(shape.layers)
                if layer not in removed
            }
            folder = task.work / "layers" / f"layers-{turn}"
            measured = losses(task.scorer, pairs, [*variants.values()], folder, shown)
            removed.append(min(variants, key=lambda layer: measured[variants[layer].name]))
    return tuple(removed)


@dataclass(frozen=True)
class Choice:
    """The `removal` of a budget; of heads, also the `path` that it is."""

    removal: Removal
    path: HeadPath | None = None


def choose(task: PlanTask, budget: Budget) -> Choice:
    """The heads or layers that the budget removes. Raises ArgumentError for one that cannot be met."""
    layers = task.teacher.layers
    if budget.kind_of == "layers":
        gone = choose_layers(task, layers - count_kept(budget, layers))
        return Choice(removal_of(blocks=gone))
    path = choose_heads(task, task.heads - count_kept(budget, task.heads, task.sharing))
    return Choice(removal_of(path.order), path)


ChangesOfRemovals = Mapping[Removal, Changes]
"""The changes by each removal on validation."""


LARGEST_ROUND = 1 / 3
"""The largest share of all heads removed in a further round."""


def grid_heads(task: PlanTask, path: HeadPath | None) -> tuple[tuple[Removal, ...], HeadPath]:
    """The removals of the budgets of heads, most kept first, prefixes of one path chosen on discovery; and the
    path.

    It begins with the `path` of a plan of heads, if there is one, and continues in as few further rounds as
    remove at most a third of all heads each.
    """
    total, sharing = task.heads, task.sharing
    counts = {sharing * round(share * total / sharing) for share in task.effort.heads}
    kept = sorted((n for n in counts if 1 <= n < total), reverse=True)
    deepest = total - min(kept)
    path = path or choose_heads(task, deepest)
    if (more := deepest - len(path.order)) > 0:
        rounds = math.ceil(more / max(1, int(LARGEST_ROUND * total)))
        path = choose_heads(task, more, rounds=rounds, before=path)
    return tuple(removal_of(path.order[: total - n]) for n in kept), path


def grid_layers(task: PlanTask) -> tuple[Removal, ...]:
    """The removals of the budgets of layers, most kept first; none for a model of one layer."""
    layers = task.teacher.layers
    steps = np.linspace(1, layers - 1, task.effort.counts).round()
    kept = sorted({int(n) for n in steps if 1 <= n < layers}, reverse=True)
    order = choose_layers(task, layers - min(kept)) if kept else ()
    return tuple(removal_of(blocks=order[: layers - n]) for n in kept)


def grid_rows(
    task: PlanTask, grid: Sequence[Removal], measured: ChangesOfRemovals
) -> tuple[GridRow, ...]:
    """The rows of the grid."""
    rows = []
    for removal in grid:
        kept = kept_by(removal, task.teacher)
        of_heads = not removal.blocks
        count = sum(len(layer.heads) for layer in kept) if of_heads else len(kept)
        rows.append(
            GridRow(
                of="heads" if of_heads else "layers",
                kept=count,
                share=count / (task.heads if of_heads else task.teacher.layers),
                removed=names_of_removal(removal),
                size=size_of(task, removal),
                measured=measured.get(removal, {}),
            )
        )
    return tuple(rows)


FLOAT16_BYTES = 2


def size_of(task: PlanTask, removal: Removal) -> Size:
    """Parameters and bytes of the model without what `removal` removes."""
    checkpoint = task.scorer.checkpoint
    layers, whole = checkpoint.family.layers_of(checkpoint.model), parameter_count(checkpoint.model)
    gone: float = sum(parameter_count(layers[layer]) for layer in removal.blocks)
    gone += sum(head_parameters(checkpoint.family, layers[h.layer]) for h in removal.heads)
    parameters = round(whole - gone)
    return Size(parameters=parameters, share=parameters / whole, stored=FLOAT16_BYTES * parameters)
