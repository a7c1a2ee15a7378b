"""Mask families: the variants that a sweep runs.

A family makes variants from the model's shape and `mask`, a function from heads to an intervention. A
random draw depends only on seed, draw number and family name, so that more draws do not change earlier
ones. A set of all the heads to draw from comes once, without a draw.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import BlocksOut
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape, by_layer, checked_heads, parse_heads

MaskOf = Callable[[Iterable[Head]], Intervention]
"""Heads → intervention, such as `lambda heads: HeadMask(tuple(heads), "uniform")`."""

DRAWS = 20
SHARES = tuple(step / 10 for step in range(1, 11))
_NAMED_HEADS = 6


def single(shape: Shape, mask: MaskOf) -> list[Variant]:
    """Every head alone: `L3H7`, family `single`."""
    return [Variant(str(head), (mask([head]),), "single") for head in shape.all_heads]


def layers(shape: Shape, mask: MaskOf) -> list[Variant]:
    """Every layer's heads together: `L3`, family `layers`."""
    by_number = {layer: _heads_of(shape, [layer]) for layer in range(shape.layers)}
    return [Variant(f"L{n}", (mask(heads),), "layers") for n, heads in by_number.items() if heads]


def sublayers(shape: Shape, mask: MaskOf) -> list[Variant]:
    """Every layer's feed-forward block, and with it the layer's heads; family `sublayers`.

    `L3:feed_forward`, whose output is 0 whatever the mask, and `L3:both`. The heads alone are `layers`.
    """
    heads = {layer: _heads_of(shape, [layer]) for layer in range(shape.layers)}
    block = {layer: BlocksOut((layer,), "feed_forward") for layer in heads}
    return [
        *(Variant(f"L{n}:feed_forward", (part,), "sublayers") for n, part in block.items()),
        *(Variant(f"L{n}:both", (mask(h), block[n]), "sublayers") for n, h in heads.items() if h),
    ]


def halves(shape: Shape, mask: MaskOf, draws: int = DRAWS, seed: int = 0) -> list[Variant]:
    """The lower and the upper half of the layers, in steps of 10 % of *all* heads.

    Layers below n // 2 are low, the rest high. A step is a random share of one half (`low:20%#03`,
    family `low` or `high`), nested in the next of the same draw. The last step is the whole half,
    without draws: `low:50%`, or `low:40%` and `high:60%` of five layers (where `high` also has 50 %). A half
    without heads has none.
    Raises ArgumentError for a model of one layer.
    """
    if shape.layers < 2:
        raise ArgumentError("a model of one layer has no lower and upper half")
    middle, total = shape.layers // 2, len(shape.all_heads)
    variants: list[Variant] = []
    for family, half in (("low", range(middle)), ("high", range(middle, shape.layers))):
        pool = _heads_of(shape, half)
        if not pool:
            continue
        sizes = {_percent(share): _whole_heads(share, total) for share in SHARES if share <= 0.5}
        steps = {label: size for label, size in sizes.items() if size < len(pool)}
        steps[_percent(len(pool) / total)] = len(pool)
        variants += _curve(family, pool, steps, mask, draws, seed)
    return variants


def random_shares(
    shape: Shape, mask: MaskOf, draws: int = DRAWS, seed: int = 0, shares: Sequence[float] = SHARES
) -> list[Variant]:
    """Random shares of all heads: `random:30%#07`, family `random`; all of them: `random:100%`.

    A share, above 0, is rounded to whole heads, half up, and omitted at none. Shares of a draw are nested.
    """
    pool = shape.all_heads
    steps = {_percent(share): _whole_heads(share, len(pool)) for share in shares}
    return _curve("random", pool, steps, mask, draws, seed)


def random_sets(
    shape: Shape, mask: MaskOf, k: int, draws: int = DRAWS, seed: int = 0
) -> list[Variant]:
    """Random sets of `k` of the model's heads: `random:k5#07`, family `random`."""
    return _curve("random", shape.all_heads, {f"k{k}": k}, mask, draws, seed)


def random_parts(
    shape: Shape, mask: MaskOf, parts: int, orders: int, seed: int = 0
) -> list[Variant]:
    """Random orders of all heads, each cut in `parts`: `part:5#03.1`, family `random`, order by order."""
    pool = shape.all_heads
    variants: list[Variant] = []
    for draw, rng in enumerate(_generators("random", orders, seed)):
        for number, cut in enumerate(np.array_split(rng.permutation(len(pool)), parts)):
            if len(cut):
                part, name = mask([pool[i] for i in cut]), f"part:{parts}#{draw:02d}.{number}"
                variants.append(Variant(name, (part,), "random", draw, seed))
    return variants


def layer_matched(
    shape: Shape,
    mask: MaskOf,
    heads: Iterable[Head],
    draws: int = DRAWS,
    seed: int = 0,
    within: Iterable[Head] | None = None,
    prefix: str = "",
) -> list[Variant]:
    """Layer-matched random heads: sets with as many heads in each layer as `heads`, none of them in it.

    They are drawn from `within` (default: all heads), no set twice, and named `matched:k5#07` after
    `prefix`; family `matched`. There are at most as many as possible sets. Raises ArgumentError for no
    heads, for heads that the model lacks, and where a layer has too few other heads.
    """
    target = set(checked_heads(heads, shape))
    if not target:
        raise ArgumentError("a layer-matched control needs a set of heads to match")
    allowed = set(shape.all_heads if within is None else checked_heads(within, shape)) - target
    pools: list[tuple[list[Head], int]] = []  # for each layer: heads to draw from, how many
    for layer, numbers in by_layer(target).items():
        pool = sorted(head for head in allowed if head.layer == layer)
        if len(pool) < len(numbers):
            raise ArgumentError(
                f"no layer-matched control: the set has {len(numbers)} heads of layer {layer}, and "
                f"{len(pool)} remain to draw from outside it; take fewer heads of that layer"
            )
        pools.append((pool, len(numbers)))

    def draw_set(rng: np.random.Generator) -> tuple[Head, ...]:
        chosen = [sorted(rng.choice(len(pool), size, replace=False)) for pool, size in pools]
        return tuple(pool[i] for (pool, _), rows in zip(pools, chosen, strict=True) for i in rows)

    possible = math.prod(math.comb(len(pool), size) for pool, size in pools)
    sets: dict[tuple[Head, ...], None] = {}
    for rng in _generators("matched", min(draws, possible), seed):
        while (drawn := draw_set(rng)) in sets:
            pass  # a repeated set is drawn again from the same generator
        sets[drawn] = None
    name = f"{prefix}matched:k{len(target)}"
    return [
        Variant(f"{name}#{draw:02d}", (mask(drawn),), "matched", draw, seed)
        for draw, drawn in enumerate(sets)
    ]


def named_set(shape: Shape, mask: MaskOf, text: str) -> list[Variant]:
    """The heads in `text`, as in 'L2H1 L3H7', together: `L2H1+L3H7`, family `set`.

    More than six heads are abbreviated: `L0H0+L0H1+L0H2+L0H3+L0H4+L0H5+2more.497c39`. Raises
    ArgumentError for no heads, or heads that the model lacks.
    """
    heads = parse_heads(text, shape)
    names = list(map(str, heads))
    if (rest := len(names) - _NAMED_HEADS) > 0:
        mark = hashlib.sha256(" ".join(names).encode()).hexdigest()[:6]
        names[_NAMED_HEADS:] = [f"{rest}more.{mark}"]
    return [Variant("+".join(names), (mask(heads),), "set")]


FAMILIES: Mapping[str, Callable[[Shape, MaskOf, int, int], list[Variant]]] = {
    "single": lambda shape, mask, draws, seed: single(shape, mask),
    "layers": lambda shape, mask, draws, seed: layers(shape, mask),
    "sublayers": lambda shape, mask, draws, seed: sublayers(shape, mask),
    "halves": halves,
    "random": random_shares,
}
"""The families of `--masks`: functions of shape, mask, draws and seed."""


def _curve(
    family: str, pool: Sequence[Head], steps: Mapping[str, int], mask: MaskOf, draws: int, seed: int
) -> list[Variant]:
    """For each step (label → number of heads): the first heads of each draw's order of the pool."""
    generators = _generators(family, draws, seed)
    orders = [[pool[i] for i in rng.permutation(len(pool))] for rng in generators]
    variants: list[Variant] = []
    for label, size in steps.items():
        name = f"{family}:{label}"
        if size == len(pool):
            variants.append(Variant(name, (mask(pool),), family))
        elif size:
            variants += [
                Variant(f"{name}#{draw:02d}", (mask(order[:size]),), family, draw, seed)
                for draw, order in enumerate(orders)
            ]
    return variants


def _generators(family: str, draws: int, seed: int) -> list[np.random.Generator]:
    if draws < 1 or seed < 0:
        raise ArgumentError(f"{draws} draws, seed {seed}: at least one draw, and no seed below 0")
    return [np.random.default_rng([seed, draw, *family.encode()]) for draw in range(draws)]


def _heads_of(shape: Shape, numbers: Sequence[int]) -> list[Head]:
    return [head for head in shape.all_heads if head.layer in numbers]


def _whole_heads(share: float, total: int) -> int:
    """Round half up (`round` takes 2.5 to 2), and 0.29 × 50 as 14.5."""
    return math.floor(round(share * total, 6) + 0.5)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
