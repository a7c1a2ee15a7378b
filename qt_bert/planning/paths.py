"""Orders in which heads and layers go: of each budget the first so many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from qt_bert.ablation.variant import Part
from qt_bert.encoder.heads import Head
from qt_bert.pairs import Pair
from qt_bert.planning.choice.heads import ROUNDS, HeadPath, choose_heads
from qt_bert.planning.choice.layers import LayerPath, choose_layers
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress

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
    """`out` heads in three rounds, the layers `gone` left out already.

    With all layers there, the first round is `task.singles`, measured once.
    """
    pool = (task.form.layers - len(gone)) * task.teacher.heads
    first = None if gone else task.singles
    runs = _runs(pool, out, ROUNDS) - (0 if first is None else 1 + pool)
    with progress(runs * len(pairs), "choosing heads", "runs") as shown:
        return choose_heads(
            task.scorer,
            pairs,
            out,
            mask=task.mask,
            skipped=gone,
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

    def with_gone(heads: Iterable[Head]) -> Part:
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
