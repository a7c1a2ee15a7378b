"""A GPU that computes nothing: shapes, types and places of tensors alone, on any machine.

Under `FakeTensorMode` an operation over tensors of two devices raises FakeTensorDeviceMismatchError, as on
a real GPU. The device is `meta`: a torch without CUDA makes fake `cuda` tensors, but no gradients of them.
What leaves the device as numbers (`numpy`, `item`) is zeros of the right shape.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import index

DEVICE = torch.device("meta")


@contextmanager
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTensorMode]:
    """What is made while the block runs is fake; `from_numpy` too, on the CPU."""
    mode = FakeTensorMode(allow_non_fake_inputs=False, shape_env=ShapeEnv())
    from_numpy, numpy = torch.from_numpy, torch.Tensor.numpy

    def no_numbers(tensor: torch.Tensor, **options: Any) -> np.ndarray:
        if not isinstance(tensor, FakeTensor):
            return numpy(tensor, **options)
        assert tensor.device.type == "cpu", "a tensor on the GPU has no numpy array"
        return np.zeros(tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch."))

    index.cache_clear()
    with monkeypatch.context() as patch, mode:
        patch.setattr(torch, "from_numpy", lambda array: mode.from_tensor(from_numpy(array)))
        patch.setattr(torch.Tensor, "numpy", no_numbers)
        patch.setattr(torch.Tensor, "item", lambda tensor: 0)
        patch.setattr(torch.Tensor, "tolist", lambda tensor: no_numbers(tensor.cpu()).tolist())
        try:
            yield mode
        finally:
            index.cache_clear()


def on_fake_gpu(checkpoint: Checkpoint, mode: FakeTensorMode) -> Checkpoint:
    """The checkpoint with fake weights on the fake GPU; called within `fake_gpu`."""
    return replace(checkpoint, model=moved(checkpoint.model, mode))


def moved(module: torch.nn.Module, mode: FakeTensorMode) -> Any:
    """A copy of a module, every parameter and buffer fake and on the fake GPU; tied ones stay tied."""
    memo: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        fake = mode.from_tensor(tensor).detach().to(DEVICE)
        memo[id(tensor)] = (
            torch.nn.Parameter(fake, tensor.requires_grad)
            if isinstance(tensor, torch.nn.Parameter)
            else fake
        )
    return copy.deepcopy(module, memo)
