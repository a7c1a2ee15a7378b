"""Several examples in one row: best-fit packing with positions that restart and a block-diagonal mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Example:
    """One tokenised pair, special tokens included: ids and segment ids [length]."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def texts(self) -> Sequence[Example]:
        """What is read apart from all else: the pair, as one text."""
        return (self,)


@dataclass(frozen=True)
class PackedRows:
    """Rows of packed texts: four arrays [rows, slots] and the place of each text.

    `segment` numbers the texts of a row from 1 (0 = empty slot): a token sees the tokens of its
    own segment only. `first_slot` [texts] is the flat index of each text's first token, texts in the
    order of the rows. An example is one text, or several, one behind the other.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    position_ids: np.ndarray
    segment: np.ndarray
    first_slot: np.ndarray


def best_fit(lengths: Sequence[int], slots: int) -> list[list[int]]:
    """Indices of `lengths` grouped into rows of at most `slots`, longest first, tightest gap first.

    Raises ValueError where a length exceeds `slots`.
    """
    rows: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(slots + 1)]
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[index]
        if length > slots:
            raise ValueError(f"an example of {length} tokens does not fit a row of {slots}")
        room = next((r for r in range(length, slots + 1) if with_room[r]), None)
        if room is None:
            rows.append([index])
            with_room[slots - length].append(len(rows) - 1)
        else:
            row = with_room[room].pop()
            rows[row].append(index)
            with_room[room - length].append(row)
    return rows


def lay_out(
    rows: Sequence[Sequence[Example]], slots: int, *, pad: int, first_position: int = 0
) -> PackedRows:
    """Write the texts of each row one behind the other; positions restart at `first_position`."""
    shape = (len(rows), slots)
    input_ids = np.full(shape, pad, np.int64)
    token_type_ids, segment = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    position_ids = np.full(shape, first_position, np.int64)
    first_slot = []
    for r, row in enumerate(rows):
        start = 0
        for number, text in enumerate((text for example in row for text in example.texts), 1):
            end = start + len(text)
            input_ids[r, start:end] = text.input_ids
            token_type_ids[r, start:end] = text.token_type_ids
            position_ids[r, start:end] += np.arange(end - start)
            segment[r, start:end] = number
            first_slot.append(r * slots + start)
            start = end
    return PackedRows(
        input_ids, token_type_ids, position_ids, segment, np.array(first_slot, np.int64)
    )


def filled(size: int, values: np.ndarray) -> np.ndarray:
    """`values` with zeros behind them up to `size` rows: arrays of one shape compile once."""
    return np.pad(values, [(0, size - len(values))] + [(0, 0)] * (values.ndim - 1))


def block_diagonal(segment: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Additive attention mask [rows, 1, slots, slots]: 0 inside a segment, the dtype's minimum outside."""
    same = segment[:, None, :, None] == segment[:, None, None, :]
    return torch.zeros(same.shape, dtype=dtype).masked_fill(~same, torch.finfo(dtype).min)


def packed_hidden(backbone: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Last hidden states [slots, hidden] of packed rows; each example sees itself alone."""
    return packed_layers(backbone, batch)[-1][0].flatten(0, 1)


def packed_layers(
    backbone: Any, batch: Mapping[str, torch.Tensor], *, attention: bool = False
) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    """Each layer's output [rows, slots, hidden] and, where `attention` is wanted, its attention
    [rows, heads, slots, slots], lowest first.

    Layers may differ in heads and feed-forward units; one without heads has no attention.
    """
    hidden = backbone.embeddings(
        input_ids=batch["input_ids"],
        token_type_ids=batch["token_type_ids"],
        position_ids=batch["position_ids"],
    )
    if hasattr(backbone, "embeddings_project"):  # ELECTRA
        hidden = backbone.embeddings_project(hidden)
    mask = block_diagonal(batch["segment"], hidden.dtype)
    outputs = []
    for layer in backbone.encoder.layer:
        attended, weights = layer.attention(hidden, mask)
        hidden = layer.feed_forward_chunk(attended)
        outputs.append((hidden, weights if attention else None))
    return outputs
