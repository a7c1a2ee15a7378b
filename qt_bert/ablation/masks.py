"""Interventions that ablate heads or feed-forward blocks, cut attention between the texts, skip layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
from qt_bert.ablation.resample import Donors, Resample
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape, by_layer
from qt_bert.models.batches import Direction, removed_attention
from qt_bert.models.devices import index
from qt_bert.models.forward import unseen

# `zero` is HEAD-MASK of the article ("BERT 可解释性-从“头”说起", 二). `uniform` is from Kovaleva et al. 2019
# ("Revealing the Dark Secrets of BERT", disabling heads): each of the L tokens weighs 1/L.


Mode = Literal["zero", "uniform", "mean"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class HeadMask(OfHeads):
    """Ablated heads: their slice at W_O's input is replaced; W_O's bias stays.

    `mode`: `zero` puts 0; `uniform` the mean of the masked pass's value vectors over the tokens that a row
    may see; `mean` each head's vector in `means`. Raises ArgumentError for no heads, and for `mean`
    without `means`.
    """

    mode: Mode = "zero"
    means: MeanZ | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.mode == "mean") != (self.means is not None):
            raise ArgumentError("the mode `mean`, and no other, needs the heads' mean head outputs")

    @property
    def kind(self) -> str:
        return self.mode

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(z=Replacement(layer, heads, self.mode, self.means))

    def install(self, model: PlainModel) -> None:
        """Rewrite the heads' slices in a hook before W_O."""

        def replaced(head: Head, plain: PlainLayer) -> torch.Tensor | float:
            if self.mode == "zero":
                return 0
            if self.means is not None:
                return self.means.vectors[head].to(plain.z)
            value = plain.value[head.head]
            return torch.stack([value[visible].mean(0) for visible in plain.visible[head.head]])

        model.replace(self.heads, replaced)


@dataclass(frozen=True)
class Replacement:
    """The `ZEdit` of ablated heads of one layer."""

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
        # The softmax of the additive mask alone weighs every visible token alike.
        wide = value.float() if value.dtype.itemsize == 2 else value
        weights = torch.softmax(site.bias.to(wide), -1)
        if weights.shape[1] > 1:
            weights = weights[:, heads]
        weights = site.batch.rows_of(weights, site.rows, axes=2)
        return torch.matmul(weights, wide).to(value)


@dataclass(frozen=True)
class SegmentBlock(OfHeads):
    """Query and title do not attend to each other in these heads (groups: `models.batches`).

    Q is the query's tokens and the first separator, T the title's and every later separator. Q attends
    to Q, T to T; the first token attends to all, and no other token to it. Masked before the softmax.
    Raises ArgumentError for no heads.
    """

    kind: ClassVar[str] = "block"
    means: ClassVar[None] = None

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(attention=Unseen(_BETWEEN, heads))

    def install(self, model: PlainModel) -> None:
        """A hook with another attention mask for the heads."""
        for layer, heads in by_layer(self.heads).items():
            model.cut(layer, _BETWEEN, heads)


@dataclass(frozen=True)
class Cut:
    """A cut of attention in the layers `first` to `last`, in all heads; called `cut:T<Q@0-4`.

    `direction`: `C<T`, `T<Q`, `Q<T`, `all` of them, or `<C` (only the first token attends to the first
    token). Masked before the softmax, so that attention moves to the other tokens (MICE, Vast et al.
    2026).
    """

    direction: Direction
    first: int
    last: int
    kind: ClassVar[str] = "cut"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    @property
    def name(self) -> str:
        """`cut:T<Q@0-4`."""
        return f"cut:{self.direction}@{self.first}-{self.last}"

    def changes(self) -> Mapping[int, LayerIntervention]:
        """An additive mask in each layer."""
        change = LayerIntervention(attention=Unseen((self.direction,)))
        return dict.fromkeys(range(self.first, self.last + 1), change)

    def install(self, model: PlainModel) -> None:
        """A hook with another attention mask in each layer."""
        for layer in range(self.first, self.last + 1):
            model.cut(layer, (self.direction,))


_BETWEEN: tuple[Direction, ...] = ("T<Q", "Q<T")


@dataclass(frozen=True)
class Unseen:
    """An `AttentionEdit` that hides columns in some heads of one layer (None: all)."""

    directions: tuple[Direction, ...]
    heads: tuple[int, ...] | None = None

    def bias(self, site: Site) -> torch.Tensor:
        """0 where a row may see a column, half the dtype's minimum elsewhere [B, 1 or heads, L, L]."""
        groups = site.batch.groups
        hidden = torch.stack([removed_attention(d, groups) for d in self.directions]).any(0)[
            :, None
        ]
        if self.heads is not None and len(self.heads) < site.layer.heads:
            cut = hidden.new_zeros(site.layer.heads)
            cut = cut.index_fill(0, index(self.heads, hidden.device), True)
            hidden = hidden & cut[:, None, None]
        return unseen(hidden, site.hidden.dtype)


@dataclass(frozen=True)
class Reference:
    """What interventions take from a reference set of pairs, each computed when it is called."""

    means: Callable[[], MeanZ]
    donors: Callable[[], Donors]


INTERVENTIONS: dict[str, Callable[[tuple[Head, ...], Reference], Intervention]] = {
    "zero": lambda heads, reference: HeadMask(heads),
    "uniform": lambda heads, reference: HeadMask(heads, "uniform"),
    "mean": lambda heads, reference: HeadMask(heads, "mean", reference.means()),
    "resample": lambda heads, reference: Resample(heads, reference.donors()),
    "block": lambda heads, reference: SegmentBlock(heads),
}
"""The modes of `--mode`: heads and the reference set → intervention."""


# Whole layers left out, or their feed-forward blocks. Layers as Fan et al. 2020 ("Reducing Transformer
# Depth on Demand with Structured Dropout") and Sajjad et al. 2023 ("On the effect of dropping layers of
# pre-trained transformer models") make a model shallower.


@dataclass(frozen=True)
class BlocksOut:
    """Layers left out whole, by number, or their feed-forward blocks, whose norms stay.

    `heads` is empty: in `variants.csv` the variant's name has the layers (`B3+B5`, `L3:feed_forward`).
    Raises ArgumentError for no layers, or numbers below 0.
    """

    layers: tuple[int, ...]
    kind: Literal["skip", "feed_forward"] = "skip"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.layers or min(self.layers) < 0:
            raise ArgumentError(f"blocks {self.layers} cannot be left out: name layers from 0")
        object.__setattr__(self, "layers", tuple(sorted(set(self.layers))))

    def changes(self) -> Mapping[int, LayerIntervention]:
        """The same change of each layer."""
        whole = self.kind == "skip"
        change = LayerIntervention(skipped=whole, no_feed_forward=not whole)
        return dict.fromkeys(self.layers, change)

    def install(self, model: PlainModel) -> None:
        """Hooks that return each layer's input, or zeros of its feed-forward block."""
        for layer in self.layers:
            (model.skip if self.kind == "skip" else model.silence)(layer)


def blocks(shape: Shape) -> list[Variant]:
    """Every layer alone: `B3`, family `blocks`. Raises ArgumentError for a single layer."""
    if shape.layers < 2:
        raise ArgumentError("the only layer of a model cannot be left out")
    return [without_blocks((layer,)) for layer in range(shape.layers)]


def without_blocks(layers: tuple[int, ...]) -> Variant:
    """Some layers left out together: `B3+B5`, family `blocks`."""
    part = BlocksOut(layers)
    return Variant("+".join(f"B{layer}" for layer in part.layers), (part,), "blocks")


def zeroed(heads: Iterable[Head]) -> Intervention:
    """The article's ablation: zero head outputs."""
    return HeadMask(tuple(heads))
