"""The forward of `encoder.forward` as a module that torch can trace: plain products, any batch and length.

It is what `Encoder.logits` computes: query, key and value in one product, and of the last layer the
first token alone. The scale 1/√width lies in the query's weights, so that the graph has no step for
it. A layer may have any number of heads and feed-forward units; without heads the bias of W_O is all
that its attention gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.encoder import Checkpoint
from qt_bert.encoder.forward import additive_mask
from qt_bert.encoder.smaller import layers_of
from qt_bert.errors import CheckpointError


class Graph(nn.Module):
    """A checkpoint's forward: `input_ids`, `token_type_ids`, `attention_mask` [batch, length] → logits.

    Without `token_type_ids` every token has type 0. The weights are the checkpoint's own. Raises
    CheckpointError for an offline model.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        if checkpoint.offline is not None:
            raise CheckpointError(
                f"{checkpoint.name} is an offline model: its lower layers read query and title apart, "
                "and its titles begin at a position of their own. A plain copy knows neither and would "
                "give other grades, so none is written; score with `qt-bert score`, or export a model "
                "trained with `--offline-layers 0`"
            )
        self.model = checkpoint.model
        self.family = checkpoint.family
        *lower, last = layers_of(checkpoint.model, checkpoint.family)
        self.lower = nn.ModuleList(_Layer(module) for module in lower)
        self.last = _FirstTokenLayer(last)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits [batch, labels], float32; the mask is 1 at real tokens and 0 at padding."""
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        backbone = getattr(self.model, self.family.backbone)
        hidden = backbone.embeddings(input_ids=input_ids, token_type_ids=types)
        projected = getattr(backbone, "embeddings_project", None)
        hidden = hidden if projected is None else projected(hidden)
        bias = additive_mask(attention_mask, hidden.dtype)
        for layer in self.lower:
            hidden = layer(hidden, bias)
        return self.family.head(self.model, self.last(hidden, bias))


class _Layer(nn.Module):
    """A layer over all tokens: hidden [batch, length, hidden] and bias [batch, 1, 1, length]."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        attention = module.attention.self
        self.heads, self.width = (
            int(attention.num_attention_heads),
            int(attention.attention_head_size),
        )
        scale = self.width**-0.5
        parts = ((attention.query, scale), (attention.key, 1.0), (attention.value, 1.0))
        self.weight = _stacked([part.weight * factor for part, factor in parts])
        self.bias = _stacked([part.bias * factor for part, factor in parts])
        self.attention, self.up, self.output = (
            module.attention.output,
            module.intermediate,
            module.output,
        )

    def forward(self, hidden: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        if self.heads == 0:
            return self.finish(None, hidden)
        parts = F.linear(hidden, self.weight, self.bias).chunk(3, -1)
        query, key, value = (self.split(part) for part in parts)
        scores = torch.matmul(query, key.transpose(-1, -2)) + bias
        return self.finish(torch.matmul(torch.softmax(scores, -1), value), hidden)

    def split(self, tensor: torch.Tensor) -> torch.Tensor:
        """[batch, length, heads × width] → [batch, heads, length, width]."""
        return tensor.unflatten(-1, (self.heads, self.width)).transpose(1, 2)

    def finish(self, contexts: torch.Tensor | None, hidden: torch.Tensor) -> torch.Tensor:
        """The layer's output from contexts [batch, heads, rows, width], or from no heads."""
        mix = self.attention.dense
        mixed = mix.bias if contexts is None else mix(contexts.transpose(1, 2).flatten(2))
        attended = self.attention.LayerNorm(mixed + hidden)
        units = self.up.intermediate_act_fn(self.up.dense(attended))
        return self.output.LayerNorm(self.output.dense(units) + attended)


class _FirstTokenLayer(_Layer):
    """A layer of which the first token alone is wanted: no token is projected (`Layer.attend_first`)."""

    def forward(self, hidden: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        first = hidden[:, :1]
        if self.heads == 0:
            return self.finish(None, first)
        to_query, to_key, to_value = self.weight.chunk(3)
        query_bias, _, value_bias = self.bias.chunk(3)
        query = self.split(F.linear(first, to_query, query_bias))
        sought = torch.matmul(query, self._by_head(to_key)).squeeze(2)
        scores = torch.matmul(sought, hidden.transpose(1, 2)) + bias.squeeze(1)
        seen = torch.matmul(torch.softmax(scores, -1), hidden).unsqueeze(2)
        contexts = torch.matmul(seen, self._by_head(to_value).transpose(1, 2))
        return self.finish(contexts + value_bias.unflatten(0, (self.heads, 1, self.width)), first)

    def _by_head(self, weight: torch.Tensor) -> torch.Tensor:
        """[heads × width, hidden] → [heads, width, hidden]."""
        return weight.unflatten(0, (self.heads, self.width))


def _stacked(tensors: Sequence[torch.Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.cat(list(tensors)).detach(), requires_grad=False)
