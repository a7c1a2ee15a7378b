"""Which heads and layers go: the least harmful first, other orders to compare, heads that harm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.families import MaskOf, single
from qt_bert.ablation.families import layers as without_heads
from qt_bert.ablation.importance import importance_on
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import blocks, without_blocks
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.models.card import layers_apart
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Head, checked_heads
from qt_bert.planning.runs import Losses, losses, parts_of
from qt_bert.probes.redundancy import SINGLES
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.tests import FALSE_DISCOVERY_RATE, q_values

# Which heads go: the least harmful first, in rounds, the rest measured anew after each.
#
# Heads stand in for each other, so that two which are harmless alone may do harm together (Michel
# et al.
# 2019, "Are Sixteen Heads Really Better than One?", section 4.2, prune step by step for that
# reason).


ROUNDS = 3
_GONE = "skipped layers"


@dataclass(frozen=True)
class HeadPath:
    """An order of heads to leave out: of each budget the first so many go.

    `order`: heads in the order in which they go; `rounds`: in which round each of them went, from
    0; `effects`: what each head alone adds to the mean loss, nothing else being left out but the
    layers that were skipped from the start; `cost`: the variants that were run on the pairs, in full
    single-head sweeps.
    """

    order: tuple[Head, ...]
    rounds: tuple[int, ...]
    effects: dict[Head, float]
    cost: float


def choose_heads(
    scorer: Scorer,
    pairs: Sequence[Pair],
    out: int,
    *,
    mask: MaskOf,
    among: Sequence[Head] | None = None,
    skipped: Sequence[int] = (),
    rounds: int = ROUNDS,
    wide: float | None = None,
    first: Losses | None = None,
    work: Path | None = None,
    shown: Progress = silent,
) -> HeadPath:
    """`out` heads to leave out, chosen on `pairs` by the exact mean loss of leaving them out.

    Every round takes out its share of `out` (a third of three), those whose absence adds least, and
    the rest is measured anew without them. `among` limits the heads that may go; the layers
    `skipped` are gone as whole blocks. `wide`, for haste, limits what is measured anew to the heads
    that were least harmful in the round before, `wide` times as many as are still to go. `first` are
    the losses of `single_losses` where they are known, on these pairs or more; `work` is a folder in
    which the rounds are kept and resumed; `shown` counts variants × pairs.

    Raises ArgumentError for fewer than one head or more than may go, heads that the model does not
    have, heads of skipped layers, no round at all, `wide` below 1, and for pairs that cannot be judged.
    """
    pool = _pool(scorer, among, skipped)
    _check(out, len(pool), rounds, wide)
    measured = first.on(pairs) if first is not None else None
    measured = measured or single_losses(
        scorer, pairs, mask=mask, among=pool, skipped=skipped, work=work, shown=shown
    )
    start = measured.mean(_GONE if skipped else NONE.name)
    effects = {head: measured.mean(str(head)) - start for head in pool}
    left, runs = _by_loss(pool, measured), len(pool)
    gone: list[Head] = []
    went: list[int] = []
    for number, size in enumerate(_sizes(out, rounds)):
        if number:
            left = left[: None if wide is None else ceil(wide * (out - len(gone)))]
            variants = [_without([*gone, head], skipped, mask, str(head)) for head in left]
            name = f"heads-{number}"
            measured = losses(scorer, pairs, variants, work=work, name=name, shown=shown)
            left, runs = _by_loss(left, measured), runs + len(left)
        gone, left = [*gone, *left[:size]], left[size:]
        went += [number] * size
    cost = runs / len(scorer.checkpoint.shape.all_heads)
    return HeadPath(tuple(gone), tuple(went), effects, cost)


def single_losses(
    scorer: Scorer,
    pairs: Sequence[Pair],
    *,
    mask: MaskOf,
    among: Sequence[Head] | None = None,
    skipped: Sequence[int] = (),
    work: Path | None = None,
    shown: Progress = silent,
) -> Losses:
    """The losses with each head alone left out: the first round of every choice on these pairs."""
    if not skipped and among is None:
        variants = single(scorer.checkpoint.shape, mask)
        return losses(scorer, pairs, variants, work=work, name=SINGLES, shown=shown)
    pool = _pool(scorer, among, skipped)
    variants = [_without([head], skipped, mask, str(head)) for head in pool]
    if skipped:
        variants.append(_without([], skipped, mask, _GONE))
    return losses(scorer, pairs, variants, work=work, name="heads-0", shown=shown)


def _check(out: int, pool: int, rounds: int, wide: float | None) -> None:
    if not 1 <= out <= pool or rounds < 1:
        raise ArgumentError(f"{out} heads in {rounds} rounds: 1 to {pool} heads can go")
    if wide is not None and not wide >= 1:
        raise ArgumentError(f"{wide} times the heads to go cannot be measured anew: 1 or more")


def _by_loss(heads: Sequence[Head], measured: Losses) -> list[Head]:
    """The least loss first; of equals the lower head."""
    return sorted(heads, key=lambda head: (measured.mean(str(head)), head))


def _pool(scorer: Scorer, among: Sequence[Head] | None, skipped: Sequence[int]) -> list[Head]:
    shape = scorer.checkpoint.shape
    if among is None:
        return [head for head in shape.all_heads if head.layer not in skipped]
    pool = sorted(set(checked_heads(among, shape)))
    strange = [head for head in pool if head.layer in skipped]
    if strange:
        raise ArgumentError(f"head {strange[0]} is gone already: its layer is left out whole")
    return pool


def _sizes(out: int, rounds: int) -> list[int]:
    """How many heads each round takes out: as equal as can be, the larger ones first."""
    sizes = [out // rounds + (number < out % rounds) for number in range(rounds)]
    return [size for size in sizes if size]


def _without(heads: Sequence[Head], skipped: Sequence[int], mask: MaskOf, name: str) -> Variant:
    return Variant(name, parts_of(heads, skipped, mask), "plan")


# Which layers go: whole blocks left out, one at a time, the rest measured anew after each.


@dataclass(frozen=True)
class LayerPath:
    """An order of layers to leave out as whole blocks: of each budget the first so many go.

    `order`: layers in the order in which they go; `losses`: the mean loss once each of them has gone
    with those before it; `cost`: variants that were run. `base` is the loss of the whole model;
    `blocks` and `heads` say what each layer alone adds to it, left out whole or its heads only; a
    layer without heads adds nothing by these.
    """

    order: tuple[int, ...]
    losses: tuple[float, ...]
    cost: int
    base: float
    blocks: tuple[float, ...]
    heads: tuple[float, ...]


def choose_layers(
    scorer: Scorer,
    pairs: Sequence[Pair],
    out: int,
    *,
    mask: MaskOf,
    work: Path | None = None,
    shown: Progress = silent,
) -> LayerPath:
    """`out` layers to leave out, chosen on `pairs` by the exact mean loss.

    Each time the block whose absence adds least goes, and all others are measured anew without it:
    down to one layer that is n(n + 1)/2 − 1 variants, and n for the layers' heads alone, left out by
    `mask`. Of an offline model a layer in which the texts meet always stays. `work` is a folder in which these sweeps are kept and resumed; `shown` counts variants ×
    pairs. Raises ArgumentError for fewer than one layer, or all of them, and for pairs that cannot
    be judged.
    """
    shape = scorer.checkpoint.shape
    if not 1 <= out < shape.layers:
        raise ArgumentError(f"{out} layers: 1 to {shape.layers - 1} of {shape.layers} can go")
    heads = without_heads(shape, mask)
    first = losses(scorer, pairs, [*blocks(shape), *heads], work=work, name="layers-0", shown=shown)
    gone: list[int] = []
    reached: list[float] = []
    measured, cost = first, len(first.names) - 1
    while len(gone) < out:
        if gone:
            variants = [without_blocks((*gone, n)) for n in range(shape.layers) if n not in gone]
            name = f"layers-{len(gone)}"
            measured = losses(scorer, pairs, variants, work=work, name=name, shown=shown)
            cost += len(variants)
        layer, loss = _least(measured, gone, _may_go(scorer.checkpoint, gone))
        gone.append(layer)
        reached.append(loss)
    return LayerPath(
        tuple(gone),
        tuple(reached),
        cost,
        first.base,
        tuple(first.added(f"B{layer}") for layer in range(shape.layers)),
        tuple(
            first.added(f"L{layer}") if f"L{layer}" in first.names else 0.0
            for layer in range(shape.layers)
        ),
    )


def even_layers(layers: int, kept: int) -> tuple[int, ...]:
    """`kept` of `layers` layers at even spacing from the lowest: 0, 2, 4, … of every other.

    Sanh et al. 2019 ("DistilBERT") start a student from one layer out of two. Raises ArgumentError
    where so many cannot be kept.
    """
    _check_kept(layers, kept)
    return tuple(place * layers // kept for place in range(kept))


def lowest_layers(layers: int, kept: int) -> tuple[int, ...]:
    """The `kept` lowest of `layers` layers. Raises ArgumentError where so many cannot be kept."""
    _check_kept(layers, kept)
    return tuple(range(kept))


def _may_go(checkpoint: Checkpoint, gone: Sequence[int]) -> list[int]:
    """The layers left but one, where it is the last in which the texts meet."""
    apart = layers_apart(checkpoint.offline)
    left = [layer for layer in range(checkpoint.layers) if layer not in gone]
    meeting = [layer for layer in left if layer >= apart]
    return [layer for layer in left if [layer] != meeting]


def _least(measured: Losses, gone: Sequence[int], candidates: Sequence[int]) -> tuple[int, float]:
    """The candidate to go next, and the loss once it has; the lowest of equals."""
    found = {layer: measured.mean(without_blocks((*gone, layer)).name) for layer in candidates}
    layer = min(found, key=lambda one: found[one])
    return layer, found[layer]


def _check_kept(layers: int, kept: int) -> None:
    if not 1 <= kept <= layers:
        raise ArgumentError(f"{kept} layers kept: 1 to {layers} can stay")


# Other orders in which heads could go, to hold the chosen one against.


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
    it measured; not where it went by these itself, in one round), and `matched`, as long as its order: drawn so that every budget takes as many heads
    of each layer as it does.

    Raises ArgumentError for no draw, a negative seed, or pairs that cannot be judged.
    """
    if draws < 1 or seed < 0:
        raise ArgumentError(f"{draws} draws, seed {seed}: at least one draw, and no seed below 0")
    heads = scorer.checkpoint.shape.all_heads
    importance = importance_on(scorer, pairs, shown)
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
        if any(chosen.rounds):
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


# Heads without which the model does better: found on discovery, confirmed on validation.


LOSS = "nll"


@dataclass(frozen=True)
class Harmful:
    """`candidates` gain on discovery by q < 0.05 over all heads, those `confirmed` gain on validation
    by q < 0.05 over the candidates too; both the largest gain on discovery first.

    `gains`: candidate → how much better `metric` gets on discovery and on validation. The metric is
    the mean −log p(label), or where labels and model have none the first that effects are tested by.
    """

    metric: str
    candidates: tuple[Head, ...]
    confirmed: tuple[Head, ...]
    gains: dict[Head, tuple[float, float]]


def harmful_heads(
    scorer: Scorer,
    validation: Sequence[Pair],
    first: Losses,
    *,
    mask: MaskOf,
    seed: int = 0,
    work: Path | None = None,
    shown: Progress = silent,
) -> Harmful:
    """Which heads harm. `first` is what `single_losses` gave on discovery.

    p by swaps of whole queries (`Effects.p_values`), q by Benjamini and Hochberg. The candidates alone
    are run on `validation`; `work` keeps that sweep, `shown` counts variants × pairs. Raises
    ArgumentError for pairs that cannot be judged.
    """
    effects = _effects(scorer, first, seed)
    metric = LOSS if effects.base(LOSS) is not None else effects.tested[0]
    found = _gaining(effects, metric, first.names)
    candidates = sorted(found, key=lambda name: -found[name])
    if not candidates:
        return Harmful(metric, (), (), {})
    variants = [Variant(name, (mask([Head.parse(name)]),), "plan") for name in candidates]
    again = losses(scorer, validation, variants, work=work, name="harmful", shown=shown)
    tested = _effects(scorer, again, seed)
    confirmed = _gaining(tested, metric, again.names)
    return Harmful(
        metric,
        tuple(map(Head.parse, candidates)),
        tuple(Head.parse(name) for name in candidates if name in confirmed),
        {
            Head.parse(name): (found[name], _gain(tested, 1 + place, metric))
            for place, name in enumerate(candidates)
        },
    )


def _effects(scorer: Scorer, measured: Losses, seed: int) -> Effects:
    labels = scorer.checkpoint.settings.labels
    return Effects(measured.logits, measured.pairs, labels, resamples=0, seed=seed)


def _gaining(effects: Effects, metric: str, names: Sequence[str]) -> dict[str, float]:
    """Variant → gain, of those that gain by q < 0.05 over all of them."""
    rows = range(1, effects.n_variants)
    q = q_values(effects.p_values(rows, metric))
    gains = {row: _gain(effects, row, metric) for row in rows}
    return {
        names[row]: gains[row]
        for row, one in zip(rows, q, strict=True)
        if one is not None and one < FALSE_DISCOVERY_RATE and gains[row] > 0
    }


def _gain(effects: Effects, row: int, metric: str) -> float:
    """How much better the metric is under a variant; NaN where it is not defined."""
    change = effects.change(row, metric)
    if change is None:
        return float("nan")
    return change if METRICS[metric].direction == "higher" else -change
