"""Gradient importance of feed-forward units, as `importance` has it for heads.

Michel et al. 2019 ("Are Sixteen Heads Really Better than One?", section 4.1) put the gate ξ = 1 on a head;
here it stands on a unit's activation, in every token of a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from qt_bert.ablation.importance import LabelSets, allowed_logits, check_exact, label_losses
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.forward import Encoder, attend
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.progress import Progress, silent


def unit_importance(
    encoder: Encoder,
    batches: Iterable[Batch],
    label_sets: LabelSets | None,
    shown: Progress = silent,
) -> list[FloatArray]:
    """For each layer the mean over pairs of |∂L/∂ξ| of every unit [units], in units of the loss L.

    Loss, labels and errors are those of `gradient_importance`. `shown` counts pairs.
    """
    check_exact(encoder)
    totals: list[FloatArray] = [np.zeros(())] * len(encoder.layers)
    pairs = 0
    for batch in batches:
        allowed = allowed_logits(encoder, batch, label_sets)
        found = _gate_gradients(encoder, batch, allowed)
        totals = [
            total + one.abs().sum(0, dtype=torch.float64).numpy()
            for total, one in zip(totals, found, strict=True)
        ]
        pairs += len(batch)
        shown.advance(len(batch))
    if not pairs:
        raise ArgumentError("gradient importance needs at least one pair; there is none")
    return [total / pairs for total in totals]


@torch.inference_mode(False)
@torch.enable_grad()
def _gate_gradients(
    encoder: Encoder, batch: Batch, allowed: torch.Tensor | None
) -> Sequence[torch.Tensor]:
    """∂L/∂ξ of each layer [B, units]."""
    gates: list[torch.Tensor] = []
    with torch.no_grad():  # no gate lies below
        hidden = encoder.embed(batch)
    for layer, bias in zip(encoder.layers, encoder.biases(batch), strict=True):
        contexts = attend(*layer.project(hidden), bias)
        attended = layer.output_norm(layer.mix(contexts) + hidden)
        active = layer.up(attended)
        gate = active.new_ones(len(batch), active.shape[-1], requires_grad=True)
        gates.append(gate)
        hidden = layer.down_norm(layer.down(active * gate[:, None]) + attended)
    logits = encoder.family.head(encoder.model, hidden[:, :1])
    return torch.autograd.grad(label_losses(logits, allowed).sum(), gates)
