"""A step's loss and gradients: compiled, on the weights' device, in parts where its memory is short."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from importlib.util import find_spec
from typing import Any

import torch

from qt_bert.errors import ArgumentError
from qt_bert.models.batches import sent
from qt_bert.models.devices import DTYPES, Memory, check_dtype, open_device
from qt_bert.training.masters import MasterWeights

# Where a run trains, and in which number type.


def weights_dtype(dtype: str) -> torch.dtype:
    """The number type of the weights of a `--dtype`. Raises ArgumentError for one that trains nothing."""
    if dtype not in DTYPES:
        raise ArgumentError(f"--dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    if dtype == "float16":  # gradients below 6e-8 are 0 in it, unless the loss is scaled
        raise ArgumentError("--dtype float16: small gradients vanish in it; train in bfloat16")
    return DTYPES[dtype]


def training_device(asked: str, dtype: str) -> torch.device:
    """The device of a `--device`. Raises ArgumentError for one that is not there or lacks `dtype`."""
    device = open_device(asked)
    check_dtype(dtype, device)
    return device


def compiled(
    function: Callable[..., Any], wanted: bool = True, on: str = "cpu"
) -> Callable[..., Any]:
    """`function` compiled for the shapes it is called with, or itself; `on` is the type of device.

    What was compiled before is let go: a process that trains many models would keep it all.
    """
    if not wanted or on not in ("cpu", "cuda"):
        return function
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        print(
            "no C++ compiler found: training runs uncompiled, at about two thirds of the speed",
            file=sys.stderr,
        )
        return function
    if on == "cuda" and find_spec("triton") is None:
        print("no Triton found: training runs uncompiled, and slower", file=sys.stderr)
        return function
    torch._dynamo.reset()
    torch._dynamo.config.cache_size_limit = 32
    return torch.compile(function, dynamic=False)


# Loss and gradients of a batch.


Packed = Mapping[str, torch.Tensor]
"""Packed rows [rows, slots], and places in them with what is asked there."""


class Gradients:
    """Loss and gradients of packed batches, on the device of the weights of `masters`.

    `loss` gives one number or several of a batch; those of its parts add up to those of the whole.
    What `aim` makes of them is made small. A batch of `slots` tokens that the device has no memory
    for is computed in parts, and so is every later one: a recipe's batch stays what it is.
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
        self.masters, self.aim = masters, aim
        self.plain, self.fast = loss, compiled(loss, compile, masters.device.type)
        self.memory = Memory(slots)

    def of(self, batch: Packed) -> torch.Tensor:
        """What `loss` gives, detached, on the device; the gradients lie with the weights.

        Raises ArgumentError where one row alone is too much.
        """
        here = {name: sent(tensor, self.masters.device) for name, tensor in batch.items()}
        while True:
            try:
                return self._added(here)
            except torch.OutOfMemoryError as error:
                words = str(error)
            if "query" in here:  # its titles are compared, and would be parted
                raise ArgumentError(
                    "the GPU has no memory for a batch whose titles are compared: take fewer --slots, or "
                    "--dtype bfloat16"
                )
            self.masters.clear()  # parts that were done are done again
            self.memory.halve(self._rows(here), words)

    def _added(self, batch: Packed) -> torch.Tensor:
        # Parts come in ever new shapes, which are not worth compiling.
        loss = self.plain if self.memory.halved else self.fast
        found = []
        for part in self._parts(batch):
            losses = loss(part)
            self.aim(losses).backward()
            found.append(losses.detach())
        return reduce(torch.add, found)

    def _parts(self, batch: Packed) -> Iterator[Packed]:
        if not self.memory.halved:
            yield batch
            return
        size = self._rows(batch)
        for start in range(0, len(batch["segment"]), size):
            yield part_of(batch, slice(start, start + size))

    def _rows(self, batch: Packed) -> int:
        """Rows that are computed at once."""
        rows, slots = batch["segment"].shape
        return max(1, self.memory.tokens // slots) if self.memory.halved else rows


_AT = {
    "first_slot": ("allowed", "auxiliary", "share", "taught"),
    "masked_slot": ("masked_label", "masked_weight"),
    "cls_slot": ("belongs", "cls_weight"),
}
"""Flat places in the rows, and what is asked there."""

_MEANS = ("masked_weight", "cls_weight")
"""Weights whose sum a mean is over; a share is one of the whole already."""


def part_of(batch: Packed, rows: slice) -> dict[str, torch.Tensor]:
    """Some rows of a batch and the places in them; `…_total` [] are the sums of the whole's weights."""
    slots = batch["segment"].shape[1]
    part = {f"{name}_total": batch[name].sum() for name in _MEANS if name in batch}
    for place in _AT.keys() & batch.keys():
        inside = (batch[place] >= rows.start * slots) & (batch[place] < rows.stop * slots)
        part[place] = batch[place][inside] - rows.start * slots
        part.update({name: batch[name][inside] for name in _AT[place] if name in batch})
    return {name: tensor[rows] for name, tensor in batch.items() if name not in part} | part
