"""Cuts between the texts, layer by layer: rows that no longer see columns (`encoder.sides`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, get_args

import torch

from qt_bert.ablation.change import Change, Site
from qt_bert.ablation.reference import PlainModel, Seen
from qt_bert.encoder.forward import unseen
from qt_bert.encoder.heads import Head
from qt_bert.encoder.sides import DIRECTIONS, Direction, gone
from qt_bert.errors import ArgumentError

Convention = Literal["before", "after"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)


@dataclass(frozen=True)
class Cut:
    """A cut in the layers `first` to `last`, in all heads; called `cut:T<Q@0-4`.

    `direction`: `C<T`, `T<Q`, `Q<T`, `all` of them, or `<C` (nobody but the first token sees the
    first token). `convention`: masked `before` the softmax, so that attention moves on to what is
    seen (MICE), or `after` it, so that it is lost (Zhan et al. 2020). Raises ArgumentError for what
    is none of these, and for layers that are no range.
    """

    direction: Direction
    first: int
    last: int
    convention: Convention = "before"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name, one, known in (
            ("direction", self.direction, DIRECTIONS),
            ("convention", self.convention, CONVENTIONS),
        ):
            if one not in known:
                raise ArgumentError(f"a cut's {name} is {one!r}: choose from {', '.join(known)}")
        if not 0 <= self.first <= self.last:
            raise ArgumentError(f"layers {self.first} to {self.last} are no range of layers from 0")

    @property
    def name(self) -> str:
        """`cut:T<Q@0-4`; with `/after` where attention is lost."""
        kind = "" if self.convention == "before" else "/after"
        return f"cut:{self.direction}@{self.first}-{self.last}{kind}"

    @property
    def kind(self) -> str:
        return "cut" if self.convention == "before" else "cut/after"

    def changes(self) -> Mapping[int, Change]:
        """An additive mask in each layer, or contexts of what is left of the attention."""
        change = Change(attention=Unseen(self.direction, self.convention == "after"))
        return dict.fromkeys(range(self.first, self.last + 1), change)

    def install(self, model: PlainModel) -> None:
        """Compute the contexts anew from what each row may see, in a hook before W_O."""
        for layer in range(self.first, self.last + 1):
            model.edit(layer, partial(_cut_plainly, self.direction, self.convention), first=True)


def _cut_plainly(direction: Direction, convention: Convention, seen: Seen) -> None:
    whole = seen.visible.clone()
    seen.cut(direction)
    for head in range(len(seen.context)):
        if convention == "before":
            seen.context[head] = seen.attend(head)
            continue
        scores = seen.query[head] @ seen.key[head].T / seen.query.shape[-1] ** 0.5
        weights = scores.masked_fill(~whole[head], float("-inf")).softmax(-1)
        seen.context[head] = (weights * seen.visible[head]) @ seen.value[head]


@dataclass(frozen=True)
class Unseen:
    """An `AttentionEdit`: a cut in all heads of one layer; `loses` as `AttentionEdit` says."""

    direction: Direction
    loses: bool

    def bias(self, site: Site) -> torch.Tensor:
        """[B, 1, L, L]: 0 where a row may see a column."""
        return unseen(gone(self.direction, site.batch.groups)[:, None], site.hidden.dtype)
