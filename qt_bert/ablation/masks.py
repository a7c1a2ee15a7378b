"""Heads left out, and queries and titles that cannot see each other.

HEAD-MASK is the article's ("BERT 可解释性-从“头”说起", 二): the head gives the zero vector. `uniform`
is that of Kovaleva et al. 2019 ("Revealing the Dark Secrets of BERT", disabling heads): each of the L
tokens weighs 1/L.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, get_args

import torch

from qt_bert.ablation.change import Change, MeanContexts, Site
from qt_bert.ablation.reference import PlainModel, Seen
from qt_bert.ablation.variant import Part
from qt_bert.encoder.batches import CLS
from qt_bert.encoder.forward import unseen
from qt_bert.encoder.heads import Head, by_layer
from qt_bert.encoder.sides import gone
from qt_bert.errors import ArgumentError

Mode = Literal["zero", "uniform", "mean"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class HeadMask:
    """Heads left out: their slice at W_O's input is replaced; W_O's bias stays.

    `mode`: `zero` gives 0; `uniform` the mean of the value vectors, as the masked pass has them,
    over the tokens that a row may see; `mean` the stored vector of each head, from `means`.
    Raises ArgumentError for no heads, an unknown mode, or `mean` without `means`.
    """

    heads: tuple[Head, ...]
    mode: Mode = "zero"
    means: MeanContexts | None = None

    def __post_init__(self) -> None:
        if not self.heads:
            raise ArgumentError("a head mask without heads; the plain model is the variant `none`")
        if self.mode not in MODES:
            raise ArgumentError(f"mode {self.mode!r}: choose from {', '.join(MODES)}")
        if (self.mode == "mean") != (self.means is not None):
            raise ArgumentError("the mode `mean`, and no other, needs the heads' mean contexts")
        object.__setattr__(self, "heads", tuple(sorted(set(self.heads))))

    @property
    def kind(self) -> str:
        return self.mode

    def changes(self) -> Mapping[int, Change]:
        """A replacement of contexts for each layer that has masked heads."""
        return {
            layer: Change(contexts=Replacement(layer, heads, self.mode, self.means))
            for layer, heads in by_layer(self.heads).items()
        }

    def install(self, model: PlainModel) -> None:
        """Rewrite the heads' slices in a hook before W_O."""
        for layer, heads in by_layer(self.heads).items():
            model.edit(layer, partial(_replace_plainly, layer, heads, self.mode, self.means))


def _replace_plainly(
    layer: int, heads: tuple[int, ...], mode: Mode, means: MeanContexts | None, seen: Seen
) -> None:
    for head in heads:
        if mode == "zero":
            seen.context[head] = 0
        elif means is not None:
            seen.context[head] = means.vectors[layer, head].to(seen.context)
        else:
            for row, visible in enumerate(seen.visible[head]):
                seen.context[head, row] = seen.value[head][visible].mean(0)


@dataclass(frozen=True)
class Replacement:
    """A `ContextEdit`: what stands in for some heads of one layer."""

    layer: int
    heads: tuple[int, ...]
    mode: Mode
    means: MeanContexts | None = None

    @property
    def mixes(self) -> bool:
        return self.mode == "uniform"

    def contexts(self, site: Site) -> torch.Tensor | None:
        """[B or 1, heads, rows or 1, width]; None for zeros."""
        if self.means is not None:
            vectors = self.means.vectors[self.layer, list(self.heads)]
            return vectors.to(site.hidden)[None, :, None]
        if self.mode == "zero":
            return None
        return uniform_contexts(site, self.heads)


def uniform_contexts(site: Site, heads: tuple[int, ...]) -> torch.Tensor:
    """The mean of the values over the tokens that a row may see [B, len(heads), 1 or rows, width]."""
    value = site.project()[2][:, list(heads)]
    if site.bias is None:
        return value.mean(2, keepdim=True)
    # Of the additive mask alone the softmax is the same weight for every token that may be seen.
    weights = torch.softmax(site.bias.float(), -1)
    if weights.shape[1] > 1:
        weights = weights[:, list(heads)]
    return torch.matmul(weights[:, :, : site.rows], value.float()).to(value)


@dataclass(frozen=True)
class SegmentBlock:
    """Query and title cannot see each other in these heads.

    Q holds the query's tokens and the first separator, T the title's and every later separator.
    Rows of Q see Q, rows of T see T; the first token sees all, and nobody else sees it. Masked
    before the softmax. Raises ArgumentError for no heads.
    """

    heads: tuple[Head, ...]
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.heads:
            raise ArgumentError("a block between the texts without heads blocks nothing")
        object.__setattr__(self, "heads", tuple(sorted(set(self.heads))))

    @property
    def kind(self) -> str:
        return "block"

    def changes(self) -> Mapping[int, Change]:
        """Another additive mask for each layer that has such heads."""
        return {
            layer: Change(attention=Blocked(heads)) for layer, heads in by_layer(self.heads).items()
        }

    def install(self, model: PlainModel) -> None:
        """Compute the heads' contexts anew, in a hook before W_O, from the tokens they may see."""
        for layer, heads in by_layer(self.heads).items():
            model.edit(layer, partial(_block_plainly, heads), first=True)


def _block_plainly(heads: tuple[int, ...], seen: Seen) -> None:
    for head in heads:
        for row, group in enumerate(seen.groups):
            if group != CLS:
                seen.visible[head, row] &= seen.groups == group
        seen.context[head] = seen.attend(head)


@dataclass(frozen=True)
class Blocked:
    """An `AttentionEdit`: the block between the texts, for some heads of one layer."""

    heads: tuple[int, ...]
    loses: ClassVar[bool] = False

    def bias(self, site: Site) -> torch.Tensor:
        """0 where a row may see a column, the least number elsewhere [B, 1 or heads, L, L]."""
        groups = site.batch.groups
        hidden = (gone("T<Q", groups) | gone("Q<T", groups))[:, None]
        if len(self.heads) < site.layer.heads:
            cut = torch.zeros(site.layer.heads, dtype=torch.bool, device=hidden.device)
            cut[list(self.heads)] = True
            hidden = hidden & cut[:, None, None]
        return unseen(hidden, site.hidden.dtype)


PARTS: dict[str, Callable[[tuple[Head, ...], Callable[[], MeanContexts]], Part]] = {
    "zero": lambda heads, means: HeadMask(heads),
    "uniform": lambda heads, means: HeadMask(heads, "uniform"),
    "mean": lambda heads, means: HeadMask(heads, "mean", means()),
    "block": lambda heads, means: SegmentBlock(heads),
}
"""What `--mode` offers: from heads, and the mean contexts where they are asked for, to a part."""
