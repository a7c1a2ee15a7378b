"""Other orders in which heads could go, to hold the chosen one against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.ablation.graded_importance import importance_on
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.planning.choice.heads import HeadPath
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

Orders = dict[str, list[tuple[Head, ...]]]


def head_rivals(
    scorer: Scorer,
    pairs: Sequence[Pair],
    *,
    draws: int,
    seed: int,
    chosen: HeadPath | None = None,
    shown: Progress = silent,
) -> Orders:
    """Name → orders in which all heads could go, the first to go first; `draws` of the random ones.

    `gradient`: the least gradient importance first (one pass over `pairs`, in float32, which `shown`
    counts). `random`: drawn. `low_layers`: the low layers are kept, so the highest layer's heads go
    first, drawn within a layer. With `chosen`: `single`, by its single effects alone (the heads that
    it measured), and `matched`, as long as its order: drawn so that every budget takes as many heads
    of each layer as it does.

    Raises ArgumentError for no draw, a negative seed, or pairs that cannot be judged.
    """
    if draws < 1 or seed < 0:
        raise ArgumentError(f"{draws} draws, seed {seed}: at least one draw, and no seed below 0")
    heads = scorer.checkpoint.shape.all_heads
    importance = importance_on(scorer, pairs, shown).raw
    orders: Orders = {
        "gradient": [tuple(sorted(heads, key=lambda head: float(importance[head])))],
        "random": [_shuffled(heads, seed, draw, "random") for draw in range(draws)],
        "low_layers": [
            tuple(sorted(_shuffled(heads, seed, draw, "low_layers"), key=lambda head: -head.layer))
            for draw in range(draws)
        ],
    }
    if chosen is not None:
        effects = chosen.effects
        orders["single"] = [tuple(sorted(effects, key=lambda head: effects[head]))]
        orders["matched"] = [
            _matched(chosen.order, _shuffled(heads, seed, draw, "matched")) for draw in range(draws)
        ]
    return orders


def _shuffled(heads: Sequence[Head], seed: int, draw: int, name: str) -> tuple[Head, ...]:
    """One order of a name's; more draws leave the earlier ones as they were."""
    rng = np.random.default_rng([seed, draw, *name.encode()])
    return tuple(heads[place] for place in rng.permutation(len(heads)))


def _matched(order: Sequence[Head], drawn: Sequence[Head]) -> tuple[Head, ...]:
    """The order's layers in its sequence, each with the next head of that layer in `drawn`."""
    left: dict[int, list[Head]] = {}
    for head in drawn:
        left.setdefault(head.layer, []).append(head)
    return tuple(left[head.layer].pop() for head in order)
