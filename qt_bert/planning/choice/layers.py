"""Which layers go: whole blocks left out, one at a time, the rest measured anew after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qt_bert.ablation.blocks import blocks, without_blocks
from qt_bert.ablation.families import MaskOf
from qt_bert.ablation.families import layers as without_heads
from qt_bert.encoder import Checkpoint
from qt_bert.encoder.offline import layers_apart
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.planning.choice.losses import Losses
from qt_bert.planning.choice.runs import losses
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer


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
