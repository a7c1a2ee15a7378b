"""Pairs as tensors: batches of rows of one length, or padded, with the side of every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.pairs.batching import length_batches, padded
from qt_bert.pairs.tokenise import EncodedPair

PADDING, CLS, QUERY, TITLE = -1, 0, 1, 2


@dataclass(frozen=True, eq=False)
class Batch:
    """B pairs, padded to L tokens.

    `rows` [B] says which pairs of the caller's list these are. `mask` [B, L] is 1 at real tokens
    and 0 at padding; None where all rows have one length. `groups` [B, L] holds CLS at the first
    token, QUERY at the query's tokens and the first separator, TITLE at the title's and every
    later separator, PADDING elsewhere. `twin`, where there is one, holds as many texts of the same
    lengths, which patches take from row by row.
    """

    rows: np.ndarray
    encoded: tuple[EncodedPair, ...]
    input_ids: torch.Tensor
    token_type_ids: torch.Tensor
    mask: torch.Tensor | None
    groups: torch.Tensor
    twin: Batch | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def real(self) -> torch.Tensor:
        """True at real tokens [B, L]."""
        return self.groups != PADDING


def batches_of(
    encoded: Sequence[EncodedPair], budget: int, *, pad: int, device: torch.device | None = None
) -> Iterator[Batch]:
    """Batches of `length_batches` over `encoded`; `pad` is the token id of padding."""
    for rows in length_batches([len(one) for one in encoded], budget):
        yield to_batch(rows, [encoded[i] for i in rows], pad=pad, device=device)


def to_batch(
    rows: np.ndarray,
    encoded: Sequence[EncodedPair],
    *,
    pad: int,
    device: torch.device | None = None,
) -> Batch:
    """One batch of `encoded`, which are the pairs `rows` of the caller's list."""
    ids, types, real = padded(encoded, pad)
    groups = np.full(real.shape, PADDING, np.int64)
    groups[real] = np.concatenate([groups_of(row) for row in encoded])

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    mask = None if real.all() else tensor(real.astype(np.int64))
    return Batch(rows, tuple(encoded), tensor(ids), tensor(types), mask, tensor(groups))


def groups_of(row: EncodedPair) -> list[int]:
    """The side of every token of a pair, as in `Batch.groups`."""
    groups = [QUERY if side == 0 else TITLE for side in row.side]
    groups[row.cls] = CLS
    for separator in row.separators[:1]:
        groups[separator] = QUERY
    return groups
