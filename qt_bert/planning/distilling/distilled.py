"""A student beside its teacher: one loss for the training loop, of four parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from qt_bert.encoder import Family
from qt_bert.planning.distilling.losses import (
    PARTS,
    LossWeights,
    attention_loss,
    distribution_loss,
    hidden_loss,
    mean_of,
)
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import LayerMatch
from qt_bert.training.packing import packed_layers
from qt_bert.training.tuning_model import label_set_loss

Batch = Mapping[str, torch.Tensor]
Layers = list[tuple[torch.Tensor, torch.Tensor | None]]


class Distilled(nn.Module):
    """`model`, the student that is trained; `teacher`, frozen, in the number type of the products.

    `layer_map` says which of the teacher's layers a student's layer imitates; layers it does not
    name imitate none. `kept` says which heads a student's layer has, `apart` how many of the lowest
    layers of student and teacher are those of an offline model's block.
    """

    parts: tuple[str, ...] = PARTS

    def __init__(
        self,
        model: Any,
        teacher: Any,
        family: Family,
        *,
        kept: Sequence[KeptLayer],
        layer_map: Sequence[LayerMatch],
        weights: LossWeights,
        dtype: torch.dtype,
        apart: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__()
        self.model = without_dropout(model)
        self.family = family
        self.kept, self.layer_map, self.weights = tuple(kept), tuple(layer_map), weights
        self.apart = apart
        # In a tuple it is no part of the module, so neither trained nor stored.
        self._teacher = (teacher.to(dtype).eval().requires_grad_(False),)

    def loss(self, batch: Batch) -> torch.Tensor:
        """The weighted parts of the loss, in the order of `parts` [4]."""
        weights = self.weights
        logits, layers = self._outputs(self.model, batch, self.apart[0])
        zero = logits.new_zeros(())
        grades = (label_set_loss(logits, batch["allowed"]) * batch["share"]).sum()
        if not weights.asks_the_teacher:
            return torch.stack([weights.grades * grades, zero, zero, zero])
        shown, taught = self._taught(batch)
        distance = distribution_loss(logits, shown, weights.temperature)
        return torch.stack(
            [
                weights.grades * grades,
                weights.distribution * (distance * batch["share"]).sum(),
                weights.hidden * self._hidden(layers, taught, batch) if weights.hidden else zero,
                weights.attention * self._attention(layers, taught, batch)
                if weights.attention
                else zero,
            ]
        )

    @torch.compiler.disable
    @torch.no_grad()
    def _taught(self, batch: Batch) -> tuple[torch.Tensor, Layers]:
        """What the teacher gives; it is as fast uncompiled, and compiling it takes a minute."""
        return self._outputs(self._teacher[0], batch, self.apart[1])

    def _outputs(self, model: Any, batch: Batch, apart: int) -> tuple[torch.Tensor, Layers]:
        """Float32 logits [examples, K] and all layers' outputs."""
        backbone = getattr(model, self.family.backbone)
        wanted = bool(self.weights.attention)
        layers = packed_layers(backbone, batch, apart=apart, attention=wanted)
        first = layers[-1][0].flatten(0, 1)[batch["first_slot"]][:, None]
        return self.family.head(model, first).float(), layers

    def _hidden(self, layers: Layers, taught: Layers, batch: Batch) -> torch.Tensor:
        """Mean over the tokens of each example, then over the layers that imitate one."""
        losses = [
            hidden_loss(
                layers[match.student][0].float(),
                taught[match.imitates][0].float(),
                self.weights.states,
            )
            for match in self.layer_map
        ]
        return (mean_of(losses) * batch["slot_share"]).sum() if losses else _nothing(batch)

    def _attention(self, layers: Layers, taught: Layers, batch: Batch) -> torch.Tensor:
        """The same of the attention of heads, against the heads of their number."""
        losses = []
        for match in self.layer_map:
            own, shown = layers[match.student][1], taught[match.imitates][1]
            heads = list(self.kept[match.student].heads)
            if own is not None and shown is not None:
                losses.append(attention_loss(own.float(), shown[:, heads].float()))
        return (mean_of(losses) * batch["slot_share"]).sum() if losses else _nothing(batch)


def _nothing(batch: Batch) -> torch.Tensor:
    return batch["share"].new_zeros(())


def without_dropout(model: Any) -> Any:
    """`model` with every dropout at 0: training draws no random numbers but the data's order."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model
