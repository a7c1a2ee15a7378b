"""What the states of a masked pass split into in one layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from qt_bert.ablation.change import Change


@dataclass(eq=False)
class Branch:
    """Variants of one state that make the same change in this layer.

    `full`: all rows of the layer's output are needed, not the first token's alone; `alone`: no
    other branch runs the layer on this state, so what was computed for it may be changed in place.
    `passed` [B, L, size] is what a branch that skips the layer hands on; it has no place among the
    states that the layer works on.
    """

    state: int
    change: Change
    variants: list[int]
    full: bool
    alone: bool
    passed: torch.Tensor | None = None
