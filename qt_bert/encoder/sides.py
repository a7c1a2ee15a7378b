"""Which rows of attention see which columns, by the side of their tokens.

C is the first token, Q the query's tokens and the first separator, T the title's and every later
separator (`Batch.groups`). What is taken away is written as rows < columns, `T<Q`, as a mask of MICE
(Vast et al. 2026) is; the rows of a text whose view is cut see their own text alone, the first token
not either, for it would carry the other text over one layer later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import torch

from qt_bert.encoder.batches import CLS, QUERY, TITLE

Direction = Literal["C<T", "T<Q", "Q<T", "all", "<C"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

_OF_TITLE = {(TITLE, QUERY), (TITLE, CLS)}
_OF_QUERY = {(QUERY, TITLE), (QUERY, CLS)}
GONE: Mapping[Direction, set[tuple[int, int]]] = {
    "C<T": {(CLS, TITLE)},
    "T<Q": _OF_TITLE,
    "Q<T": _OF_QUERY,
    "all": {(CLS, TITLE)} | _OF_TITLE | _OF_QUERY,
    "<C": {(QUERY, CLS), (TITLE, CLS)},
}
"""The groups (of the row, of the column) between which each direction takes attention away."""


def gone(direction: Direction, groups: torch.Tensor) -> torch.Tensor:
    """Where a row no longer sees a column [B, L, L], of `groups` [B, L]."""
    found = torch.zeros(*groups.shape, groups.shape[-1], dtype=torch.bool, device=groups.device)
    for row, column in GONE[direction]:
        found |= (groups == row)[:, :, None] & (groups == column)[:, None, :]
    return found


def moved_positions(groups: torch.Tensor, title_start: int) -> torch.Tensor:
    """The position of every token, from 0 [B, L], of `groups` [B, L].

    A title begins at `title_start`, or behind its query where that is longer.
    """
    title = groups == TITLE
    places = torch.arange(groups.shape[1], device=groups.device).expand_as(groups)
    begins = torch.where(title, places, groups.shape[1]).amin(1, keepdim=True)
    return places + title * (title_start - begins).clamp(min=0)
