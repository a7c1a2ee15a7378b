"""Cuts between the texts, layer by layer: which rows no longer see which columns.

C is the first token, Q the query's tokens and the first separator, T the title's and every later
separator. A cut is written as rows < columns, `T<Q`, as a mask of MICE (Vast et al. 2026) is; the rows
of a text whose view is cut see their own text alone, the first token not either, for it would carry
the other text over one layer later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, get_args

import torch

from qt_bert.ablation.change import Change, Site
from qt_bert.ablation.masks import unseen
from qt_bert.ablation.reference import PlainModel, Seen
from qt_bert.encoder.batches import CLS, QUERY, TITLE
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError

Direction = Literal["C<T", "T<Q", "Q<T", "all", "<C"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
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
    rows = {CLS: "C", QUERY: "Q", TITLE: "T"}
    for head in range(len(seen.context)):
        whole = [row.clone() for row in seen.visible[head]]
        for row, group in enumerate(seen.groups.tolist()):
            for column, other in enumerate(seen.groups.tolist()):
                if (rows[group], rows[other]) in _GONE[direction]:
                    seen.visible[head, row, column] = False
        if convention == "before":
            seen.context[head] = seen.attend(head)
            continue
        scores = seen.query[head] @ seen.key[head].T / seen.query.shape[-1] ** 0.5
        for row, visible in enumerate(whole):
            weights = scores[row].masked_fill(~visible, float("-inf")).softmax(-1)
            seen.context[head, row] = (weights * seen.visible[head, row]) @ seen.value[head]


_OF_TITLE = {("T", "Q"), ("T", "C")}
_OF_QUERY = {("Q", "T"), ("Q", "C")}
_GONE: Mapping[str, set[tuple[str, str]]] = {
    "C<T": {("C", "T")},
    "T<Q": _OF_TITLE,
    "Q<T": _OF_QUERY,
    "all": {("C", "T")} | _OF_TITLE | _OF_QUERY,
    "<C": {("Q", "C"), ("T", "C")},
}
"""(row's side, column's side) that a cut takes away."""


@dataclass(frozen=True)
class Unseen:
    """An `AttentionEdit`: a cut in all heads of one layer; `loses` as `AttentionEdit` says."""

    direction: Direction
    loses: bool

    def bias(self, site: Site) -> torch.Tensor:
        """[B, 1, L, L]: 0 where a row may see a column."""
        return unseen(gone(self.direction, site.batch.groups)[:, None], site.hidden.dtype)


def gone(direction: Direction, groups: torch.Tensor) -> torch.Tensor:
    """Where a cut takes a column from a row [B, L, L], of `Batch.groups` [B, L]."""
    sides = {"C": groups == CLS, "Q": groups == QUERY, "T": groups == TITLE}
    found = torch.zeros(*groups.shape, groups.shape[-1], dtype=torch.bool, device=groups.device)
    for row, column in _GONE[direction]:
        found |= sides[row][:, :, None] & sides[column][:, None, :]
    return found
