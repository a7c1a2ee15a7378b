"""Reductions: small functions of what a pass computes, evaluated in the same pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from qt_bert.encoder.batches import Batch
from qt_bert.errors import ArgumentError

Of = Literal["attention", "contexts", "hidden"]


@dataclass(frozen=True, eq=False)
class View:
    """What a reduction sees of one variant in one layer, for a batch of B pairs of L tokens.

    `values`: attention weights [B, heads, rows, L], the heads' contexts [B, heads, rows, width], or
    the layer's output [B, rows, hidden]; rows is L, or 1 (the first token) for `first_row`.
    Attention is the softmax's own, also for a head whose context is replaced; contexts are those
    that reach W_O. Rows and columns of padding hold no meaning: `batch.real` tells them apart.
    """

    values: torch.Tensor
    batch: Batch
    layer: int


@dataclass(frozen=True)
class Reduction:
    """A few numbers a pair, from the attention, contexts or output of some layers.

    `compute` returns [B, …], always of one shape after B; `first_row` asks for the first token's
    row alone, which is cheaper in the last layer.
    """

    name: str
    of: Of
    layers: tuple[int, ...]
    compute: Callable[[View], torch.Tensor]
    first_row: bool = False


def check_reductions(reductions: Sequence[Reduction], layers: int) -> None:
    """Raise ArgumentError for two of one name, or one of a layer that the model does not have."""
    names = [one.name for one in reductions]
    for one in reductions:
        if names.count(one.name) > 1:
            raise ArgumentError(f"two reductions are named {one.name!r}")
        outside = [layer for layer in one.layers if not 0 <= layer < layers]
        if outside or not one.layers:
            raise ArgumentError(
                f"reduction {one.name!r} asks for layers {list(one.layers)}; "
                f"the model has layers 0 to {layers - 1}"
            )
