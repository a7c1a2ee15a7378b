"""Matrix FLOPs of a run: counted for pairs of three lengths, interpolated exactly for others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.models.batches import Batch, to_batch

LENGTHS = (8, 16, 24)

Run = Callable[[Sequence[Batch]], Iterable[object]]


def matrix_flops(run: Run, batches: Sequence[Batch]) -> int:
    """FLOPs of the matrix products of `run(batches)`, two a multiplication.

    Every product is linear in the pairs and quadratic in their length, so counting one pair of three
    lengths is exact, and does not slow the timed run down.
    """
    counted = [float(_counted(run, [one_pair(length)])) for length in LENGTHS]
    powers = np.vander(LENGTHS, 3)
    curve = np.linalg.solve(powers.astype(float), counted)
    return round(sum(len(b) * float(np.polyval(curve, b.input_ids.shape[1])) for b in batches))


def _counted(run: Run, batches: Sequence[Batch]) -> int:
    with flop_counter() as counter:
        for _ in run(batches):
            pass
    return int(counter.get_total_flops())


def flop_counter() -> FlopCounterMode:
    """torch's counter, extended by oneDNN's product with prepacked weights."""
    prepacked = {torch.ops.mkldnn._linear_pointwise: _linear_flops}
    return FlopCounterMode(display=False, custom_mapping=prepacked)


def _linear_flops(inputs: Any, *others: Any, out_shape: Any, **named: Any) -> int:
    """FLOPs of a linear layer from the shapes of its input and output."""
    return 2 * math.prod(inputs) * out_shape[-1]


def one_pair(length: int) -> Batch:
    """A batch of one pair of `length` tokens."""
    side = [SPECIAL, QUERY, QUERY, SPECIAL, *[TITLE] * (length - 5), SPECIAL]
    pair = EncodedPair([0] * length, [0] * length, side, [], False, False)
    return to_batch(np.array([0]), [pair], pad=0)
