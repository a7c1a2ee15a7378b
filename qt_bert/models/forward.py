"""The encoder layer by layer, from a Hugging Face model's own weights, without its padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch, gone, moved_positions
from qt_bert.models.card import Offline
from qt_bert.models.devices import index
from qt_bert.models.families import Family

# Linear layers whose weights oneDNN has laid out once, instead of at every call.
#
# On a CPU a product of a few hundred rows spends up to a third of its time on bringing the weight
# into the layout that the kernel wants. torch does this ahead of time when it freezes a compiled
# model, by the operators used here; where they are missing or refuse (float64), and on a GPU, the
# plain product is taken, of the stacked weights.


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
        self._weight = _stacked([layer.weight for layer in layers])
        self._bias = _stacked([layer.bias for layer in layers])
        self._multiply = self._laid_out() or self._stacked

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._plain(tensor) if torch.is_grad_enabled() else self._multiply(tensor)

    def _laid_out(self) -> Callable[[torch.Tensor], torch.Tensor] | None:
        after: tuple[str, list[float], str] = (
            ("gelu", [], "none") if self.gelu else ("none", [], "")
        )
        weight = self._weight
        if weight.device.type != "cpu":
            return None
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
            apply = torch.ops.mkldnn._linear_pointwise
            apply(weight.new_zeros(1, weight.shape[1]), packed, self._bias, *after)
        except (AttributeError, RuntimeError):  # NotImplementedError is a RuntimeError
            return None
        del self._weight  # the laid-out copy stands for it
        return lambda tensor: apply(tensor, packed, self._bias, *after)

    def _stacked(self, tensor: torch.Tensor) -> torch.Tensor:
        out = F.linear(tensor, self._weight, self._bias)
        return F.gelu(out) if self.gelu else out

    def _plain(self, tensor: torch.Tensor) -> torch.Tensor:
        out = torch.cat([F.linear(tensor, one.weight, one.bias) for one in self.layers], -1)
        return F.gelu(out) if self.gelu else out


def _stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return tensors[0].detach() if len(tensors) == 1 else torch.cat(list(tensors)).detach()


# The encoder layer by layer, from a Hugging Face model's own weights, without its padding and
# detours.
#
# Every family of `families` shares BERT's layer (Vaswani et al. 2017; Devlin et al. 2019): this
# file is that layer, written once over plain tensors. It does less than the general forward: query,
# key and value come from one product, rows of one length need no mask, and above the last mixing
# step only the first token is computed, the only one the head reads.


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer's weights: `query`, `key` and `value` also stacked in `qkv`, `up` with its activation.

    A layer has `heads` heads of `width` numbers; there may be none, and other layers may have others.
    """

    heads: int
    width: int
    query: Any
    key: Any
    value: Any
    qkv: Packed
    output: Any
    packed_output: Packed
    output_norm: Any
    up: Callable[[torch.Tensor], torch.Tensor]
    down: Packed
    down_norm: Any

    @property
    def dtype(self) -> torch.dtype:
        """The number type of the weights."""
        return self.query.weight.dtype  # type: ignore[no-any-return]

    def project(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key, value, each [..., heads, length, width]."""
        return tuple(self.split(part) for part in self.qkv(hidden).chunk(3, -1))  # type: ignore[return-value]

    def project_first(
        self, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `project`, with the query of the first token alone [..., heads, 1, width]."""
        query = self.query(hidden[..., :1, :])
        return self.split(query), self.split(self.key(hidden)), self.split(self.value(hidden))

    def attend_first(
        self, hidden: torch.Tensor, bias: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention [batch, heads, 1, length] and z [batch, heads, 1, width] of the first token.

        q·(W_K x) is (W_Kᵀ q)·x, and Σ α (W_V x) is W_V (Σ α x): no token is projected. The key's
        bias adds the same to every score of a row, so the softmax does not see it.
        """
        query = self.split(self.query(hidden[:, :1]))
        sought = torch.einsum("bhrw,hws->bhrs", query, self._by_head(self.key.weight)).flatten(1, 2)
        scores = torch.matmul(sought * query.shape[-1] ** -0.5, hidden.transpose(1, 2))
        own = None if bias is None else bias[..., :1, :]
        weights = softmax(scores.unflatten(1, (self.heads, 1)), own)
        seen = torch.matmul(weights.flatten(1, 2), hidden).unflatten(1, (self.heads, 1))
        z = torch.einsum("bhrs,hws->bhrw", seen, self._by_head(self.value.weight))
        return weights, z + self.value.bias.unflatten(0, (self.heads, 1, self.width))

    def split(self, tensor: torch.Tensor) -> torch.Tensor:
        """[..., length, size] → [..., heads, length, width]."""
        return tensor.unflatten(-1, (self.heads, self.width)).transpose(-3, -2)

    def _by_head(self, weight: torch.Tensor) -> torch.Tensor:
        """[heads × width, size] → [heads, width, size]."""
        return weight.unflatten(0, (self.heads, self.width))

    def mix(self, z: torch.Tensor) -> torch.Tensor:
        """W_O over the heads' head outputs [..., heads, rows, width], with its bias [..., rows,
        hidden]."""
        return self.packed_output(z.transpose(-3, -2).flatten(-2))

    def mix_some(self, z: torch.Tensor, heads: Sequence[int]) -> torch.Tensor:
        """The share of some heads in `mix`, without the bias: [..., len(heads), rows, width] → [..., rows, hidden]."""
        columns = self.output.weight.unflatten(1, (self.heads, self.width))
        columns = columns[:, index(tuple(heads), columns.device)].flatten(1)
        return F.linear(z.transpose(-3, -2).flatten(-2), columns)

    def feed_forward(self, mixed: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """From what the heads give, mixed, and the layer's input to its output, all [..., rows, hidden]."""
        attended = self.output_norm(mixed + hidden)
        return self.down_norm(self.down(self.up(attended)) + attended)

    def finish(self, z: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """From the heads' head outputs [batch, heads, rows, width] to the layer's output [batch,
        rows, hidden]."""
        return self.feed_forward(self.mix(z), hidden)


class Encoder:
    """A checkpoint's encoder as a list of `Layer`, with its embeddings and its head.

    Built once per model, with copies of the weights in the layout of the matrix kernel; a change
    of the model's weights is not seen.
    """

    def __init__(self, model: Any, family: Family, offline: Offline | None = None) -> None:
        self.model = model
        self.family = family
        self.offline = offline
        self.backbone = getattr(model, family.backbone)
        self.layers = [_layer(module) for module in self.backbone.encoder.layer]

    @property
    def device(self) -> torch.device:
        """Where the weights are; batches are moved there."""
        return self.layers[0].query.weight.device  # type: ignore[no-any-return]

    def embed(self, batch: Batch) -> torch.Tensor:
        """Embeddings [B, L, hidden] of a batch of pairs, at the positions that the model gives them."""
        start = None if self.offline is None else self.offline.title_start
        positions = None if start is None else moved_positions(batch.groups, start)
        return self.embed_tokens(batch.input_ids, batch.token_type_ids, positions)

    def embed_tokens(
        self,
        input_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Embeddings [batch, length, hidden]; `positions`, from 0, are the tokens' places by default."""
        if positions is not None:
            positions = positions + self.family.first_position(self.model.config.pad_token_id)
        hidden = self.backbone.embeddings(
            input_ids=input_ids, token_type_ids=token_type_ids, position_ids=positions
        )
        projected = getattr(self.backbone, "embeddings_project", None)
        return hidden if projected is None else projected(hidden)

    def biases(self, batch: Batch) -> list[torch.Tensor | None]:
        """What each layer adds to its attention scores: [B, 1, 1 or L, L]; None where all is seen."""
        padding = self._padding(batch)
        if self.offline is None or not self.offline.layers:
            return [padding] * len(self.layers)
        apart = unseen(gone("all", batch.groups)[:, None], self.layers[0].dtype)
        below = apart if padding is None else apart + padding
        offline = self.offline.layers
        return [below] * offline + [padding] * (len(self.layers) - offline)

    def logits_of(self, batch: Batch) -> torch.Tensor:
        """Logits [B, labels] of a batch of pairs."""
        batch = batch.to(self.device)
        return self.family.head(self.model, self.first_of(batch))

    def first_of(self, batch: Batch) -> torch.Tensor:
        """The last hidden state of each pair's first token [B, 1, hidden]."""
        return self._first(self.embed(batch), self.biases(batch))

    def below(self, batch: Batch, layers: int) -> torch.Tensor:
        """The hidden states behind the first `layers` layers [B, L, hidden]; the batch may be half pairs."""
        batch = batch.to(self.device)
        return self._through(self.embed(batch), self.biases(batch)[:layers], 0)

    def logits_from(self, hidden: torch.Tensor, batch: Batch, layers: int) -> torch.Tensor:
        """Logits [B, labels] from the states behind the first `layers` layers; above these the texts meet."""
        biases = [self._padding(batch)] * (len(self.layers) - layers)
        return self.family.head(self.model, self._first(hidden, biases, layers))

    def logits(
        self,
        input_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits [batch, labels] of rows [batch, length], as `first` reads them."""
        return self.family.head(self.model, self.first(input_ids, token_type_ids, mask))

    def first(
        self,
        input_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The last hidden state of the first token [batch, 1, hidden] of texts [batch, length].

        `mask` [batch, length] is 0 at padding; None means rows of one length. Raises ArgumentError
        for an offline model, which must know the side of every token: see `logits_of`.
        """
        if self.offline is not None:
            raise ArgumentError("an offline model reads pairs, not texts without sides")
        hidden = self.embed_tokens(input_ids, token_type_ids)
        bias = None if mask is None else additive_mask(mask, hidden.dtype)
        return self._first(hidden, [bias] * len(self.layers))

    def _first(
        self, hidden: torch.Tensor, biases: Sequence[torch.Tensor | None], start: int = 0
    ) -> torch.Tensor:
        """From the input of layer `start` to the first token's last state: all that the last computes."""
        hidden = self._through(hidden, biases[:-1], start)
        last = self.layers[-1]
        _, z = last.attend_first(hidden, biases[-1])
        return last.finish(z, hidden[:, :1])

    def _through(
        self, hidden: torch.Tensor, biases: Sequence[torch.Tensor | None], start: int
    ) -> torch.Tensor:
        """All tokens' states behind as many layers, from `start` on, as there are biases."""
        for layer, bias in zip(self.layers[start:], biases, strict=False):
            query, key, value = layer.project(hidden)
            hidden = layer.finish(attend(query, key, value, bias), hidden)
        return hidden

    def _padding(self, batch: Batch) -> torch.Tensor | None:
        """The additive mask of padding [B, 1, 1, L]; None where there is none."""
        return None if batch.mask is None else additive_mask(batch.mask, self.layers[0].dtype)


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Head outputs [..., heads, rows, width]: softmax(q·kᵀ/√width + bias)·v; on a GPU without the maps."""
    if query.device.type != "cpu":
        return _attend_fused(query, key, value, bias)
    return torch.matmul(attention(query, key, bias), value)


def _attend_fused(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """By torch's fused kernels, which take four axes alone: states and pairs become one."""
    if query.ndim == 4:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    ahead = query.shape[:-3]
    seen = None if bias is None else bias.expand(*ahead, *bias.shape[-3:]).flatten(0, -4)
    query, key, value = (one.flatten(0, -4) for one in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen).unflatten(0, ahead)


def attention(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Attention weights [..., heads, rows, length]: softmax(q·kᵀ/√width + bias)."""
    return softmax(torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2)), bias)


def softmax(scores: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """softmax(scores + bias) over the last axis; half precision goes through float32, faster on a CPU."""
    masked = scores if bias is None else scores + bias
    if scores.dtype not in (torch.bfloat16, torch.float16):
        return torch.softmax(masked, -1)
    return torch.softmax(masked, -1, dtype=torch.float32).to(scores.dtype)


def additive_mask(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[batch, length] of 0 and 1 → [batch, 1, 1, length], as `unseen` where 0."""
    return unseen(mask[:, None, None] == 0, dtype)


def unseen(hidden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An additive mask: 0, and half the dtype's minimum where `hidden`; two of them are a number still."""
    return torch.zeros_like(hidden, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min / 2)


def _layer(module: Any) -> Layer:
    attention = module.attention.self
    output, up, activation = module.attention.output, module.intermediate.dense, module.intermediate
    return Layer(
        heads=int(attention.num_attention_heads),
        width=int(attention.attention_head_size),
        query=attention.query,
        key=attention.key,
        value=attention.value,
        qkv=Packed((attention.query, attention.key, attention.value)),
        output=output.dense,
        packed_output=Packed((output.dense,)),
        output_norm=output.LayerNorm,
        up=_activated(up, activation.intermediate_act_fn),
        down=Packed((module.output.dense,)),
        down_norm=module.output.LayerNorm,
    )


def _activated(up: Any, activation: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """The wider layer with its activation, in one operator where that is the exact GELU."""
    if getattr(activation, "act", activation) is F.gelu:
        return Packed((up,), gelu=True)
    product = Packed((up,))
    return lambda tensor: activation(product(tensor))
