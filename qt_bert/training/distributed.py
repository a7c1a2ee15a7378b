"""Several processes (torchrun, accelerate launch): each takes its rows, gradients are summed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class World:
    """This process among `size`; rank 0 alone judges, writes files and shows progress."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def sum_gradients(self, parameters: Iterable[torch.Tensor]) -> None:
        """Add up the gradients of all processes in place (nothing to do for one)."""
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.size > 1:
            dist.barrier()

    def total(self, value: float) -> float:
        """The sum of all processes' values."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(shared)
        return float(shared)

    def agree(self, judged: tuple[float, float] | None) -> tuple[float | None, float | None]:
        """Rank 0's two numbers, everywhere; (None, None) where it has none."""
        if self.size > 1:
            known = judged is not None
            shared = torch.tensor([known, *(judged or (0.0, 0.0))], dtype=torch.float64)
            dist.broadcast(shared, 0)
            judged = (float(shared[1]), float(shared[2])) if shared[0] else None
        return judged or (None, None)


@contextmanager
def world() -> Iterator[World]:
    """The group torchrun started this process in (gloo, CPU), or a world of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    dist.init_process_group("gloo")
    try:
        yield World(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
