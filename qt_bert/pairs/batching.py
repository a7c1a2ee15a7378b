"""Encoded pairs as rectangles of numbers: which rows go together, and what fills the shorter ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from qt_bert.pairs.tokenise import EncodedPair


class Padded(NamedTuple):
    """B pairs, padded to L tokens: int64 [B, L], and True at real tokens [B, L]."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    real: np.ndarray


def padded(encoded: Sequence[EncodedPair], pad: int) -> Padded:
    """`encoded`, one a row; `pad` is the token id of padding, whose type is 0."""
    lengths = np.array([len(row) for row in encoded])
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, pad, np.int64)
    types = np.zeros(real.shape, np.int64)
    ids[real] = np.concatenate([row.input_ids for row in encoded])
    types[real] = np.concatenate([row.token_type_ids for row in encoded])
    return Padded(ids, types, real)


def length_batches(lengths: Sequence[int], budget: int) -> Iterator[np.ndarray]:
    """Row indices of batches of at most `budget` tokens (one row, if that is longer), longest first.

    A batch ends where the length changes, unless it is under half full; then it goes on into
    shorter rows, which are padded.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    start = 0
    for i in range(1, len(order) + 1):
        longest = lengths[order[start]]
        full = (i - start + 1) * longest > budget
        changes = i < len(order) and lengths[order[i]] != lengths[order[i - 1]]
        if i == len(order) or full or (changes and 2 * (i - start) * longest >= budget):
            yield order[start:i]
            start = i
