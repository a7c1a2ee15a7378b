"""Linear layers whose weights oneDNN has laid out once, instead of at every call.

On a CPU a product of a few hundred rows spends up to a third of its time on bringing the weight into
the layout that the kernel wants. torch does this ahead of time when it freezes a compiled model, by the
operators used here; where they are missing or refuse (another device, float64), the plain product
is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

ROWS = 512
"""Rows the layout is chosen for; other numbers of rows are as exact and nearly as fast."""


class Packed:
    """Linear layers over the same input, stacked into one product; `gelu` applies the exact GELU.

    `layers` are `torch.nn.Linear`; their weights are shared, and a laid-out copy is kept beside
    them, so that a change of the weights is not seen. Takes [..., in] to [..., out]. Where gradients
    are wanted the plain product is taken.
    """

    def __init__(self, layers: Sequence[Any], *, gelu: bool = False) -> None:
        self.layers = layers
        self.gelu = gelu
        self._bias = _stacked([layer.bias for layer in layers])
        self._multiply = self._laid_out() or self._plain

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._plain(tensor) if torch.is_grad_enabled() else self._multiply(tensor)

    def _laid_out(self) -> Callable[[torch.Tensor], torch.Tensor] | None:
        after: tuple[str, list[float], str] = (
            ("gelu", [], "none") if self.gelu else ("none", [], "")
        )
        try:
            weight = _stacked([layer.weight for layer in self.layers])
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
            apply = torch.ops.mkldnn._linear_pointwise
            apply(weight.new_zeros(1, weight.shape[1]), packed, self._bias, *after)
        except (AttributeError, RuntimeError):  # NotImplementedError is a RuntimeError
            return None
        return lambda tensor: apply(tensor, packed, self._bias, *after)

    def _plain(self, tensor: torch.Tensor) -> torch.Tensor:
        out = torch.cat([F.linear(tensor, one.weight, one.bias) for one in self.layers], -1)
        return F.gelu(out) if self.gelu else out


def _stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(tensors)).detach()
