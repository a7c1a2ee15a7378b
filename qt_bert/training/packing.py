"""Several examples in a row: best-fit packing, restarting positions, a block-diagonal mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from qt_bert.models.families import Family
from qt_bert.models.forward import hidden_places


@dataclass(frozen=True)
class Example:
    """One tokenised pair, special tokens included: ids and segment ids [length].

    `at` is the place of the token the classifier reads.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    at: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.input_ids)


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
    rows: Sequence[Sequence[Example]],
    slots: int,
    *,
    pad: int,
    first_position: int = 0,
) -> dict[str, np.ndarray]:
    """Concatenate the examples of each row: four arrays [rows, slots] and the place of each example.

    `input_ids`, `token_type_ids`, `position_ids`, which restart at `first_position`; `segment`
    numbers the examples of a row from 1 (0 = empty slot), and a token attends to its segment only.
    `first_slot` [examples] is the flat index of the token the classifier reads, in row order.
    """
    shape = (len(rows), slots)
    input_ids = np.full(shape, pad, np.int64)
    token_type_ids, segment = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    position_ids = np.full(shape, first_position, np.int64)
    first_slot = []
    for r, row in enumerate(rows):
        start = 0
        for number, text in enumerate(row, 1):
            end = start + len(text)
            input_ids[r, start:end] = text.input_ids
            token_type_ids[r, start:end] = text.token_type_ids
            position_ids[r, start:end] += np.arange(len(text))
            segment[r, start:end] = number
            first_slot.append(r * slots + start + text.at)
            start = end
    return {
        "input_ids": input_ids,
        "token_type_ids": token_type_ids,
        "position_ids": position_ids,
        "segment": segment,
        "first_slot": np.array(first_slot, np.int64),
    }


def filled(size: int, values: np.ndarray) -> np.ndarray:
    """`values` padded with zeros to `size` rows: arrays of one shape compile once."""
    return np.pad(values, [(0, size - len(values))] + [(0, 0)] * (values.ndim - 1))


def on_device(model: nn.Module, device: torch.device, dtype: str) -> None:
    """Move a model that trains in `dtype` to `device`; its layers use fused attention (SDPA).

    Not in bfloat16 on a CPU: with narrow heads its backward is several times slower there. In float32 a
    step of 12 narrow heads is a tenth faster with it.
    """
    model.to(device)
    able = all(getattr(module, "_supports_sdpa", True) for module in model.modules())
    if not able or (device.type == "cpu" and dtype == "bfloat16"):  # DeBERTa has no such kernel
        return
    for module in model.modules():  # each layer of a pruned model has its own config
        if "config" in vars(module):
            vars(module)["config"]._attn_implementation = "sdpa"


def read_states(
    model: Any, family: Family, hidden: torch.Tensor, batch: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """The state that the classifier reads [examples, 1, hidden], from last hidden states [slots, hidden]."""
    if family.final_norm:
        hidden = getattr(family.backbone_of(model), family.final_norm)(hidden)
    read = batch["first_slot"]
    if family.read_out(model.config) != "mean":
        return hidden[read][:, None]
    segment = batch["segment"]
    before = segment.amax(1).cumsum(0) - segment.amax(1)
    example = (segment + before[:, None] - 1).clamp(min=0).flatten()
    real = (segment > 0).flatten().to(hidden.dtype)[:, None]
    sums = hidden.new_zeros(len(read), hidden.shape[1]).index_add(0, example, hidden * real)
    counts = hidden.new_zeros(len(read), 1).index_add(0, example, real)
    return (sums / counts.clamp(min=1))[:, None]


def packed_hidden(model: Any, family: Family, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Last hidden states [slots, hidden] of packed rows; an example attends to itself alone.

    Layers may differ in heads and feed-forward units.
    """
    backbone, places = family.backbone_of(model), batch["position_ids"]
    hidden = family.embed(model, batch["input_ids"], batch["token_type_ids"], places)
    segment = batch["segment"]
    others = segment[:, None, :, None] != segment[:, None, None, :]
    whole = hidden.new_zeros(others.shape).masked_fill(others, torch.finfo(hidden.dtype).min)
    angles: dict[str | None, Any] = {}
    masks: dict[int | None, torch.Tensor] = {}
    for module in family.layers_of(model):
        window = family.window(module)
        if window not in masks:
            masks[window] = _within(whole, window, family.causal)
        mask = masks[window]
        if family.positions == "rotary":
            kind = family.kind(module)
            if kind not in angles:
                kinds = () if kind is None else (kind,)
                angles[kind] = backbone.rotary_emb(hidden, places, *kinds)
            hidden = module(hidden, attention_mask=mask, position_embeddings=angles[kind])
        elif family.positions == "relative":
            distances = backbone.encoder.get_rel_embedding()
            hidden, _ = module(hidden, mask == 0, rel_embeddings=distances)
        else:
            hidden = module(hidden, mask)
    return hidden.flatten(0, 1)


def _within(mask: torch.Tensor, window: int | None, causal: bool) -> torch.Tensor:
    hidden = hidden_places(mask.shape[-1], window, causal, mask.device)
    return mask if hidden is None else mask.masked_fill(hidden, torch.finfo(mask.dtype).min)
