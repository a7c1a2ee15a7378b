"""The encoder layer by layer, from a Hugging Face model's own weights, without its padding and detours.

Every family of `families` shares BERT's layer (Vaswani et al. 2017; Devlin et al. 2019): this file is
that layer, written once over plain tensors. It does less than the general forward: query, key and
value come from one product, rows of one length need no mask, and above the last mixing step only
the first token is computed, the only one the head reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from qt_bert.encoder.families import Family


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer's weights; `qkv` stacks the query, key and value projections (each heads × width rows)."""

    qkv: torch.Tensor
    qkv_bias: torch.Tensor
    heads: int
    output: Any
    output_norm: Any
    up: Any
    activation: Callable[[torch.Tensor], torch.Tensor]
    down: Any
    down_norm: Any

    @property
    def size(self) -> int:
        """Width of the query (and key, and value) of all heads together."""
        return self.qkv.shape[0] // 3

    def project(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key, value, each [batch, heads, length, width]."""
        return tuple(
            self.split(part) for part in F.linear(hidden, self.qkv, self.qkv_bias).chunk(3, -1)
        )  # type: ignore[return-value]

    def project_first(
        self, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `project`, with the query of the first token alone [batch, heads, 1, width]."""
        size = self.size
        query = F.linear(hidden[:, :1], self.qkv[:size], self.qkv_bias[:size])
        key, value = F.linear(hidden, self.qkv[size:], self.qkv_bias[size:]).chunk(2, -1)
        return self.split(query), self.split(key), self.split(value)

    def split(self, tensor: torch.Tensor) -> torch.Tensor:
        """[batch, length, size] → [batch, heads, length, width]."""
        return tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def mix(self, context: torch.Tensor) -> torch.Tensor:
        """W_O over the heads' contexts [..., heads, rows, width], with its bias [..., rows, hidden]."""
        return self.output(context.transpose(-3, -2).flatten(-2))

    def mix_some(self, context: torch.Tensor, heads: Sequence[int]) -> torch.Tensor:
        """The share of some heads in `mix`, without the bias: [..., len(heads), rows, width] → [..., rows, hidden]."""
        columns = self.output.weight.unflatten(1, (self.heads, -1))[:, list(heads)].flatten(1)
        return F.linear(context.transpose(-3, -2).flatten(-2), columns)

    def feed_forward(self, mixed: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """From what the heads give, mixed, and the layer's input to its output, all [..., rows, hidden]."""
        attended = self.output_norm(mixed + hidden)
        return self.down_norm(self.down(self.activation(self.up(attended))) + attended)

    def finish(self, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """From the heads' contexts [batch, heads, rows, width] to the layer's output [batch, rows, hidden]."""
        return self.feed_forward(self.mix(context), hidden)


class Encoder:
    """A checkpoint's encoder as a list of `Layer`, with its embeddings and its head.

    Built once per model; the weights of query, key and value are copied side by side, all others
    are shared with the Hugging Face model.
    """

    def __init__(self, model: Any, family: Family) -> None:
        self.model = model
        self.family = family
        self.backbone = getattr(model, family.backbone)
        self.layers = [_layer(module) for module in self.backbone.encoder.layer]

    def embed(self, input_ids: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
        """Embeddings [batch, length, hidden]; positions follow the family's own rule."""
        hidden = self.backbone.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        projected = getattr(self.backbone, "embeddings_project", None)
        return hidden if projected is None else projected(hidden)

    def logits(
        self,
        input_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits [batch, labels] of rows [batch, length]; `mask` [batch, length] is 0 at padding.

        None means rows of one length. The last layer computes the first token alone.
        """
        hidden = self.embed(input_ids, token_type_ids)
        bias = None if mask is None else additive_mask(mask, hidden.dtype)
        for layer in self.layers[:-1]:
            query, key, value = layer.project(hidden)
            hidden = layer.finish(attend(query, key, value, bias), hidden)
        last = self.layers[-1]
        query, key, value = last.project_first(hidden)
        first = last.finish(attend(query, key, value, bias), hidden[:, :1])
        return self.family.head(self.model, first)


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Contexts [batch, heads, rows, width]: softmax(q·kᵀ/√width + bias)·v."""
    return torch.matmul(attention(query, key, bias), value)


def attention(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Attention weights [..., heads, rows, length]: softmax(q·kᵀ/√width + bias)."""
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
    return torch.softmax(scores if bias is None else scores + bias, -1)


def additive_mask(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[batch, length] of 0 and 1 → [batch, 1, 1, length], 0 where 1 and the dtype's minimum where 0."""
    return (1 - mask[:, None, None].to(dtype)) * torch.finfo(dtype).min


def _layer(module: Any) -> Layer:
    attention = module.attention.self
    parts = (attention.query, attention.key, attention.value)
    return Layer(
        qkv=torch.cat([p.weight for p in parts]).detach(),
        qkv_bias=torch.cat([p.bias for p in parts]).detach(),
        heads=int(attention.num_attention_heads),
        output=module.attention.output.dense,
        output_norm=module.attention.output.LayerNorm,
        up=module.intermediate.dense,
        activation=module.intermediate.intermediate_act_fn,
        down=module.output.dense,
        down_norm=module.output.LayerNorm,
    )
