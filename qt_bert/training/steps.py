"""A step's loss and gradients: compiled, and split where the device's memory is too small."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from importlib.util import find_spec
from typing import Any

import torch

from qt_bert.errors import ArgumentError
from qt_bert.models.batches import sent
from qt_bert.models.devices import DTYPES, Memory, check_dtype, open_device
from qt_bert.progress import note_once
from qt_bert.training.masters import MasterWeights


def weights_dtype(dtype: str) -> torch.dtype:
    """The torch dtype of a `--dtype`. Raises ArgumentError for one that cannot train."""
    if dtype not in DTYPES:
        raise ArgumentError(f"--dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    if dtype == "float16":  # gradients below 6e-8 are 0 in it, unless the loss is scaled
        raise ArgumentError("--dtype float16: small gradients vanish in it; train in bfloat16")
    return DTYPES[dtype]


def training_device(name: str, dtype: str) -> torch.device:
    """The device of a `--device`. Raises ArgumentError for one that is missing or lacks `dtype`."""
    device = open_device(name)
    check_dtype(dtype, device)
    return device


def compiled(function: Callable[..., Any], device_type: str) -> Callable[..., Any]:
    """`function` compiled for the shapes of its calls, or itself where it cannot be compiled. Clears earlier
    compilations, which a process that trains many models would keep."""
    if device_type not in ("cpu", "cuda"):
        return function
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        note_once("no C++ compiler: training runs uncompiled, at about two thirds of the speed")
        return function
    if device_type == "cuda" and find_spec("triton") is None:
        note_once("no Triton: training runs uncompiled, and slower")
        return function
    torch._dynamo.reset()
    torch._dynamo.config.cache_size_limit = 32
    return torch.compile(function, dynamic=False)


Packed = Mapping[str, torch.Tensor]
"""Packed rows [rows, slots], and flat places in them with their targets."""


class Gradients:
    """Loss and gradients of packed batches, on the device of the weights of `masters`.

    `loss` maps a batch to one number or several, additive over its rows; `aim` of them is minimised. Once a
    batch of `slots` tokens exceeds the device's memory, it and all later ones are computed in parts.
    """

    def __init__(
        self,
        loss: Callable[[Packed], torch.Tensor],
        masters: MasterWeights,
        slots: int,
        *,
        compile: bool = True,
        aim: Callable[[torch.Tensor], torch.Tensor] = torch.sum,
    ) -> None:
        self.masters, self.aim, self.plain = masters, aim, loss
        self.fast = compiled(loss, masters.device.type) if compile else loss
        self.memory = Memory(slots)

    def of(self, batch: Packed) -> torch.Tensor:
        """The losses, detached, on the device; adds the gradients to those of the weights.

        Raises ArgumentError where a single row exceeds the memory.
        """
        here = {name: sent(tensor, self.masters.device) for name, tensor in batch.items()}
        while True:
            try:
                return self._added(here)
            except torch.OutOfMemoryError as error:
                words = str(error)
            if "query" in here:  # titles of a query are compared: the batch cannot be split
                raise ArgumentError(
                    "the GPU has no memory for a batch whose titles are compared: take fewer --slots, or "
                    "--dtype bfloat16"
                )
            self.masters.clear()  # finished parts are computed again
            self.memory.halve(self._rows(here), words)

    def _added(self, batch: Packed) -> torch.Tensor:
        # Parts have too many shapes to compile.
        loss = self.plain if self.memory.halved else self.fast
        total = []
        for part in self._parts(batch):
            losses = loss(part)
            self.aim(losses).backward()
            total.append(losses.detach())
        return reduce(torch.add, total)

    def _parts(self, batch: Packed) -> Iterator[Packed]:
        if not self.memory.halved:
            yield batch
            return
        size = self._rows(batch)
        filled = int(batch["segment"].any(1).sum())  # the last rows may be empty
        for start in range(0, filled, size):
            yield part_of(batch, slice(start, start + size))

    def _rows(self, batch: Packed) -> int:
        """Rows computed at once."""
        rows, slots = batch["segment"].shape
        return max(1, self.memory.tokens // slots) if self.memory.halved else rows


_AT = {
    "first_slot": ("allowed", "auxiliary", "share", "taught"),
    "masked_slot": ("masked_label", "masked_weight"),
    "cls_slot": ("belongs", "cls_weight"),
}
"""Flat places in the rows, and the tensors that hold a value for each."""

_MEANS = ("masked_weight", "cls_weight")
"""Weights whose sum a mean is divided by; shares are divided already."""


def part_of(batch: Packed, rows: slice) -> dict[str, torch.Tensor]:
    """Some rows of a batch and the places in them; `…_total` [] sum the weights of the whole batch."""
    slots = batch["segment"].shape[1]
    part = {f"{name}_total": batch[name].sum() for name in _MEANS if name in batch}
    for place in _AT.keys() & batch.keys():
        inside = (batch[place] >= rows.start * slots) & (batch[place] < rows.stop * slots)
        part[place] = batch[place][inside] - rows.start * slots
        part.update({name: batch[name][inside] for name in _AT[place] if name in batch})
    return {name: tensor[rows] for name, tensor in batch.items() if name not in part} | part
