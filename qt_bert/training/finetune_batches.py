"""The order of a fine-tuning run: length-bucketed, packed batches, all from (seed, epoch)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.encoder import Family
from qt_bert.encoder.offline import Offline
from qt_bert.training.labelled import LabelledExample
from qt_bert.training.packing import PackedRows, best_fit, filled, lay_out


@dataclass(frozen=True)
class BatchLayout:
    """Rows of one of these lengths (tokens), and the slots a batch has over all processes.

    `title_start` is where titles begin in an offline model.
    """

    buckets: tuple[int, ...]
    slots: int
    pad: int
    first_position: int
    title_start: int | None = None

    @classmethod
    def of(
        cls,
        family: Family | None,
        pad: int,
        longest: int,
        slots: int,
        offline: Offline | None = None,
    ) -> BatchLayout:
        """Two row lengths for examples of up to `longest` tokens, positions as the family counts them."""
        first = 0 if family is None else family.first_position(pad)
        start = None if offline is None else offline.title_start
        return cls(buckets_for(longest), slots, pad, first, start)


@dataclass(frozen=True)
class BatchPlan:
    """One batch: its row length and the examples of each row, by index."""

    slots: int
    rows: list[list[int]]


def buckets_for(longest: int) -> tuple[int, ...]:
    """Row lengths for texts of up to `longest` tokens: the half and the whole, multiples of 8."""
    whole = -(-longest // 8) * 8
    half = -(-whole // 16) * 8
    return (half, whole) if half >= 32 else (whole,)


def plan_epoch(
    examples: Sequence[LabelledExample], layout: BatchLayout, seed: int, epoch: int
) -> list[BatchPlan]:
    """Every example once: packed within its length bucket, rows shuffled, then batches shuffled."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(examples))
    plans: list[BatchPlan] = []
    low = 0
    for slots in layout.buckets:
        chosen = [int(i) for i in order if low < len(examples[i]) <= slots]
        rows = best_fit([len(examples[i]) for i in chosen], slots)
        shuffled = [[chosen[i] for i in rows[r]] for r in rng.permutation(len(rows))]
        size = max(1, layout.slots // slots)
        plans += [BatchPlan(slots, shuffled[s : s + size]) for s in range(0, len(rows), size)]
        low = slots
    return [plans[i] for i in rng.permutation(len(plans))]


def to_tensors(
    plan: BatchPlan,
    examples: Sequence[LabelledExample],
    layout: BatchLayout,
    *,
    rank: int = 0,
    size: int = 1,
) -> dict[str, torch.Tensor]:
    """The tensors of one process's share of a batch, in shapes that depend on the row length alone.

    `share` [examples] is each example's weight over the weight of the whole batch, so that losses
    and gradients of all processes add up to those of one; `slot_share` [rows, slots] hands it out
    evenly over the example's tokens, 0 at empty slots. `first_slot` has one place for each text of
    an example, all texts of one behind each other. `groups` [rows, slots], the side of every token,
    is there for an offline model.
    """
    total = sum(examples[i].weight for row in plan.rows for i in row)
    rows_each = -(-max(1, layout.slots // plan.slots) // size)
    own = plan.rows[rank::size]
    rows = [[examples[i] for i in row] for row in own] + [[]] * (rows_each - len(own))
    texts = len(examples[0].texts)
    packed = lay_out(
        rows,
        plan.slots,
        pad=layout.pad,
        first_position=layout.first_position,
        title_start=layout.title_start,
    )
    flat = [example for row in rows for example in row]
    room = _room(len(flat), rows_each * plan.slots)
    share = np.array([e.weight / total for e in flat], np.float32)
    labels = len(examples[0].allowed)
    arrays = {
        "input_ids": packed.input_ids,
        "token_type_ids": packed.token_type_ids,
        "position_ids": packed.position_ids,
        "segment": packed.segment,
        "first_slot": filled(room * texts, packed.first_slot),
        "allowed": filled(
            room, np.array([e.allowed for e in flat], np.float32).reshape(-1, labels)
        ),
        "auxiliary": filled(room, np.array([e.auxiliary for e in flat]).reshape(-1, 2)),
        "share": filled(room, share),
        "slot_share": _slot_share(packed, share, [len(e) for e in flat], texts),
        **({} if layout.title_start is None else {"groups": packed.groups}),
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _slot_share(
    packed: PackedRows, share: np.ndarray, lengths: Sequence[int], texts: int
) -> np.ndarray:
    slots = np.zeros(packed.segment.size, np.float32)
    for first, part, length in zip(packed.first_slot[::texts], share, lengths, strict=True):
        slots[first : first + length] = part / length
    return slots.reshape(packed.segment.shape)


def _room(count: int, slots: int) -> int:
    """Places for examples: a few sizes only, so that few shapes are compiled."""
    step = max(16, slots // 24)
    return -(-max(count, 1) // step) * step
