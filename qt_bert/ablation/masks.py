"""Heads ablated, layers skipped, and queries and titles that cannot see each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, get_args

import torch

from qt_bert.ablation.interventions import (
    Intervention,
    LayerIntervention,
    MeanZ,
    OfHeads,
    Site,
    Variant,
)
from qt_bert.ablation.reference import PlainLayer, PlainModel
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape, by_layer
from qt_bert.models.batches import DIRECTIONS, Direction, gone
from qt_bert.models.devices import index
from qt_bert.models.forward import unseen

# Heads left out. HEAD-MASK is the article's ("BERT 可解释性-从“头”说起", 二): the head gives the zero
# vector. `uniform` is that of Kovaleva et al. 2019 ("Revealing the Dark Secrets of BERT", disabling
# heads): each of the L tokens weighs 1/L.


Mode = Literal["zero", "uniform", "mean"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class HeadMask(OfHeads):
    """Heads left out: their slice at W_O's input is replaced; W_O's bias stays.

    `mode`: `zero` gives 0; `uniform` the mean of the value vectors, as the masked pass has them,
    over the tokens that a row may see; `mean` the stored vector of each head, from `means`.
    Raises ArgumentError for no heads, an unknown mode, or `mean` without `means`.
    """

    mode: Mode = "zero"
    means: MeanZ | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in MODES:
            raise ArgumentError(f"mode {self.mode!r}: choose from {', '.join(MODES)}")
        if (self.mode == "mean") != (self.means is not None):
            raise ArgumentError("the mode `mean`, and no other, needs the heads' mean head outputs")

    @property
    def kind(self) -> str:
        return self.mode

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(z=Replacement(layer, heads, self.mode, self.means))

    def install(self, model: PlainModel) -> None:
        """Rewrite the heads' slices in a hook before W_O."""
        for layer, heads in by_layer(self.heads).items():
            model.edit(layer, partial(_replace_plainly, layer, heads, self.mode, self.means))


def _replace_plainly(
    layer: int, heads: tuple[int, ...], mode: Mode, means: MeanZ | None, seen: PlainLayer
) -> None:
    for head in heads:
        if mode == "zero":
            seen.z[head] = 0
        elif means is not None:
            seen.z[head] = means.vectors[layer, head].to(seen.z)
        else:
            for row, visible in enumerate(seen.visible[head]):
                seen.z[head, row] = seen.value[head][visible].mean(0)


@dataclass(frozen=True)
class Replacement:
    """A `ZEdit`: what stands in for some heads of one layer."""

    layer: int
    heads: tuple[int, ...]
    mode: Mode
    means: MeanZ | None = None

    @property
    def mixes(self) -> bool:
        return self.mode == "uniform"

    def z(self, site: Site) -> torch.Tensor | None:
        """[B or 1, heads, 1 or rows, width]; None for zeros."""
        if self.mode == "zero":
            return None
        if (stored := self.means) is not None:
            means = site.clean.derived(stored, lambda: stored.vectors.to(site.hidden))
            return means[self.layer, index(self.heads, means.device)][None, :, None]
        heads = index(self.heads, site.hidden.device)
        value = site.project()[2][:, heads]
        if site.bias is None:
            return value.mean(2, keepdim=True)
        # Of the additive mask alone the softmax is the same weight for every token that may be seen.
        weights = torch.softmax(site.bias.float(), -1)
        if weights.shape[1] > 1:
            weights = weights[:, heads]
        weights = site.batch.rows_of(weights, site.rows, axes=2)
        return torch.matmul(weights, value.float()).to(value)


# Queries and titles that cannot see each other (`models.batches` says which rows see which columns).


@dataclass(frozen=True)
class SegmentBlock(OfHeads):
    """Query and title cannot see each other in these heads.

    Q holds the query's tokens and the first separator, T the title's and every later separator.
    Rows of Q see Q, rows of T see T; the first token sees all, and nobody else sees it. Masked
    before the softmax. Raises ArgumentError for no heads.
    """

    kind: ClassVar[str] = "block"
    means: ClassVar[None] = None

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(attention=Unseen(_BETWEEN, heads))

    def install(self, model: PlainModel) -> None:
        """Another attention mask for the heads, in a hook before the layer attends."""
        for layer, heads in by_layer(self.heads).items():
            model.cut(layer, _BETWEEN, heads)


@dataclass(frozen=True)
class Cut:
    """A cut in the layers `first` to `last`, in all heads; called `cut:T<Q@0-4`.

    `direction`: `C<T`, `T<Q`, `Q<T`, `all` of them, or `<C` (nobody but the first token sees the
    first token). Masked before the softmax, so that attention moves on to what is seen (MICE, Vast
    et al. 2026). Raises ArgumentError for another direction, and for layers that are no range.
    """

    direction: Direction
    first: int
    last: int
    kind: ClassVar[str] = "cut"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            known = ", ".join(DIRECTIONS)
            raise ArgumentError(f"a cut's direction is {self.direction!r}: choose from {known}")
        if not 0 <= self.first <= self.last:
            raise ArgumentError(f"layers {self.first} to {self.last} are no range of layers from 0")

    @property
    def name(self) -> str:
        """`cut:T<Q@0-4`."""
        return f"cut:{self.direction}@{self.first}-{self.last}"

    def changes(self) -> Mapping[int, LayerIntervention]:
        """An additive mask in each layer."""
        change = LayerIntervention(attention=Unseen((self.direction,)))
        return dict.fromkeys(range(self.first, self.last + 1), change)

    def install(self, model: PlainModel) -> None:
        """Another attention mask, in a hook before each layer attends."""
        for layer in range(self.first, self.last + 1):
            model.cut(layer, (self.direction,))


_BETWEEN: tuple[Direction, ...] = ("T<Q", "Q<T")


@dataclass(frozen=True)
class Unseen:
    """An `AttentionEdit`: rows that no longer see columns, in some heads of one layer (None: all)."""

    directions: tuple[Direction, ...]
    heads: tuple[int, ...] | None = None

    def bias(self, site: Site) -> torch.Tensor:
        """0 where a row may see a column, half the least number elsewhere [B, 1 or heads, L, L]."""
        groups = site.batch.groups
        hidden = torch.stack([gone(one, groups) for one in self.directions]).any(0)[:, None]
        if self.heads is not None and len(self.heads) < site.layer.heads:
            cut = hidden.new_zeros(site.layer.heads)
            cut = cut.index_fill(0, index(self.heads, hidden.device), True)
            hidden = hidden & cut[:, None, None]
        return unseen(hidden, site.hidden.dtype)


INTERVENTIONS: dict[str, Callable[[tuple[Head, ...], Callable[[], MeanZ]], Intervention]] = {
    "zero": lambda heads, means: HeadMask(heads),
    "uniform": lambda heads, means: HeadMask(heads, "uniform"),
    "mean": lambda heads, means: HeadMask(heads, "mean", means()),
    "block": lambda heads, means: SegmentBlock(heads),
}
"""What `--mode` offers: from heads, and the mean head outputs where asked for, to a part."""


# Whole layers left out: a block hands its input on, without attention, feed-forward or LayerNorm.
# What is left is the model with these layers deleted, which is how Fan et al. 2020 ("Reducing
# Transformer Depth on Demand with Structured Dropout") and Sajjad et al. 2023 ("On the effect of
# dropping layers of pre-trained transformer models") make a model shallower.


@dataclass(frozen=True)
class BlocksOut:
    """Layers left out whole, by number.

    It concerns no head by name, though those of its layers are gone: in `variants.csv` the name of
    the variant says which layers (`B3+B5`), and `heads` is for heads left out besides, in other
    layers. Raises ArgumentError for no layers, or numbers below 0.
    """

    layers: tuple[int, ...]
    kind: ClassVar[str] = "skip"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.layers or min(self.layers) < 0:
            raise ArgumentError(f"blocks {self.layers} cannot be left out: name layers from 0")
        object.__setattr__(self, "layers", tuple(sorted(set(self.layers))))

    def changes(self) -> Mapping[int, LayerIntervention]:
        """The layers that are skipped."""
        return dict.fromkeys(self.layers, LayerIntervention(skipped=True))

    def install(self, model: PlainModel) -> None:
        """Hooks that hand on each layer's input."""
        for layer in self.layers:
            model.skip(layer)


def blocks(shape: Shape) -> list[Variant]:
    """Every layer alone, left out whole: `B3`, family `blocks`.

    Raises ArgumentError for a model of one layer.
    """
    if shape.layers < 2:
        raise ArgumentError("the only layer of a model cannot be left out")
    return [without_blocks((layer,)) for layer in range(shape.layers)]


def without_blocks(layers: tuple[int, ...]) -> Variant:
    """Some layers left out whole, together: `B3+B5`, family `blocks`."""
    part = BlocksOut(layers)
    return Variant("+".join(f"B{layer}" for layer in part.layers), (part,), "blocks")
