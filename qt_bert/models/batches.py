"""Pairs as tensors: batches, the side of every token, and which side sees which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from qt_bert.data.tokenise import EncodedPair, length_batches, padded

At = int | torch.Tensor
"""The place of a token: the same in all pairs, or of each [B]."""


def row_at(tensor: torch.Tensor, place: At, *, axes: int = 1) -> torch.Tensor:
    """One row of each pair [..., B, 1, size] of [..., B, L, size]; `axes` lie between B and size.

    A tensor of one row is that row already.
    """
    if tensor.shape[-2] == 1:
        return tensor
    if isinstance(place, int):
        return tensor[..., place : place + 1, :]
    ahead = [1] * (tensor.ndim - axes - 2)
    places = place.reshape(*ahead, -1, *[1] * (axes + 1))
    shape = torch.broadcast_shapes(tensor.shape[:-2], places.shape[:-2])
    places = places.expand(*shape, 1, tensor.shape[-1])
    return tensor.expand(*shape, *tensor.shape[-2:]).gather(-2, places)


PADDING, CLS, QUERY, TITLE, PROMPT = -1, 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Batch:
    """B pairs, padded to L tokens.

    `rows` [B] are the pairs' indices in the caller's list. `mask` [B, L] is 1 at real tokens and 0 at
    padding; None where all rows have one length. `groups` [B, L] is CLS at the first token, or the one
    that is read, QUERY at the query's tokens and the first separator, TITLE at the title's and every
    later separator, PROMPT at a template's text before the query, PADDING elsewhere. `at` is the place of
    the token that the classifier reads. `donor`, if any, holds the pairs that patches are taken from, row
    by row, of the same lengths.
    """

    rows: np.ndarray
    encoded: tuple[EncodedPair, ...]
    input_ids: torch.Tensor
    token_type_ids: torch.Tensor
    mask: torch.Tensor | None
    groups: torch.Tensor
    donor: Batch | None = None
    at: At = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def length(self) -> int:
        """L, the tokens of a row with its padding."""
        return self.groups.shape[1]

    @property
    def real(self) -> torch.Tensor:
        """True at real tokens [B, L]."""
        return self.groups != PADDING

    def to(self, device: torch.device) -> Batch:
        """The batch on a device; a copy to a GPU does not wait for its current work."""
        if self.input_ids.device == device:
            return self
        return self._each(lambda tensor: sent(tensor, device), lambda donor: donor.to(device))

    def rows_of(self, tensor: torch.Tensor, rows: int, *, axes: int = 1) -> torch.Tensor:
        """All L rows of [..., B, L, size], or with `rows` 1 that of the token that is read; see `row_at`."""
        return tensor if rows == tensor.shape[-2] else row_at(tensor, self.at, axes=axes)

    def subset(self, rows: slice) -> Batch:
        """The batch of some of the pairs, padded to the same length."""
        if rows.start == 0 and rows.stop >= len(self):
            return self
        part = self._each(lambda tensor: tensor[rows], lambda donor: donor.subset(rows))
        return replace(part, rows=self.rows[rows], encoded=self.encoded[rows])

    def _each(
        self, of: Callable[[torch.Tensor], torch.Tensor], of_donor: Callable[[Batch], Batch]
    ) -> Batch:
        return replace(
            self,
            input_ids=of(self.input_ids),
            token_type_ids=of(self.token_type_ids),
            mask=None if self.mask is None else of(self.mask),
            groups=of(self.groups),
            at=self.at if isinstance(self.at, int) else of(self.at),
            donor=None if self.donor is None else of_donor(self.donor),
        )


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """`tensor` on a device; a copy from the host to a GPU does not wait for its current work."""
    if device.type == "cuda" and tensor.device.type == "cpu" and torch.cuda.is_available():
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def batches_of(
    encoded: Sequence[EncodedPair], budget: int, *, pad: int, padded: bool = True
) -> Iterator[Batch]:
    """Batches of `length_batches` over `encoded`; `pad` is the token id of padding."""
    for rows in length_batches([len(pair) for pair in encoded], budget, padded=padded):
        yield to_batch(rows, [encoded[i] for i in rows], pad=pad)


def to_batch(rows: np.ndarray, encoded: Sequence[EncodedPair], *, pad: int) -> Batch:
    """One batch of `encoded`, the pairs `rows` of the caller's list, in the host's memory."""
    ids, types, real = padded(encoded, pad)
    groups = np.full(real.shape, PADDING, np.int64)
    groups[real] = np.concatenate([groups_of(row) for row in encoded])
    tensor = torch.from_numpy
    mask = None if real.all() else tensor(real.astype(np.int64))
    read = [row.at for row in encoded]
    at = read[0] if len(set(read)) == 1 else tensor(np.array(read))
    return Batch(rows, tuple(encoded), tensor(ids), tensor(types), mask, tensor(groups), at=at)


def groups_of(row: EncodedPair) -> list[int]:
    """The side of every token of a pair, as in `Batch.groups`."""
    groups = [QUERY if side == 0 else TITLE for side in row.side]
    if row.at:
        query = groups.index(QUERY) if QUERY in groups else 0
        groups[:query] = [PROMPT] * query
    groups[row.cls] = CLS
    for separator in row.separators[:1]:
        groups[separator] = QUERY
    return groups


# Which rows of attention see which columns, by the groups of their tokens (`Batch.groups`): C, Q and T are
# CLS, QUERY and TITLE; all see a template's prompt. `T<Q` removes the attention of rows T to columns Q, in
# the notation of MICE (Vast et al. 2026); such rows do not see the first token either, which would bring
# them the other text one layer later.


Direction = Literal["C<T", "T<Q", "Q<T", "all", "<C"]

_OF_TITLE = {(TITLE, QUERY), (TITLE, CLS)}
_OF_QUERY = {(QUERY, TITLE), (QUERY, CLS)}
REMOVED: Mapping[Direction, set[tuple[int, int]]] = {
    "C<T": {(CLS, TITLE)},
    "T<Q": _OF_TITLE,
    "Q<T": _OF_QUERY,
    "all": {(CLS, TITLE)} | _OF_TITLE | _OF_QUERY,
    "<C": {(QUERY, CLS), (TITLE, CLS)},
}
"""The groups (of the row, of the column) between which each direction removes attention."""


def removed_attention(direction: Direction, groups: torch.Tensor) -> torch.Tensor:
    """Where a row no longer sees a column [B, L, L], of `groups` [B, L]."""
    removed = torch.zeros(*groups.shape, groups.shape[-1], dtype=torch.bool, device=groups.device)
    for row, column in REMOVED[direction]:
        removed |= (groups == row)[:, :, None] & (groups == column)[:, None, :]
    return removed
