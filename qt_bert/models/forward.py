"""The encoder layer by layer, from a Hugging Face model's own weights, without its padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch.nn import functional as F

from qt_bert.models.batches import At, Batch, row_at
from qt_bert.models.devices import index
from qt_bert.models.families import Family, at

# On a CPU a product of a few hundred rows spends up to a third of its time on laying out the weight
# for the kernel. torch does this ahead of time when it freezes a compiled model, by the operators
# used here; where they are missing or fail (float64), and on a GPU, the plain product of the stacked
# weights is used.


ROWS = 512
"""Rows the layout is optimised for; others are as exact and nearly as fast."""


class Packed:
    """Linear layers over the same input, stacked into one product; `gelu` applies the exact GELU.

    `layers` are `torch.nn.Linear`, all with a bias or none. Maps [..., in] to [..., out]. Their weights
    are copied into the layout, so later changes have no effect; with gradients, or without `laid_out`,
    the plain product of the shared weights is used.
    """

    def __init__(self, layers: Sequence[Any], *, gelu: bool = False, laid_out: bool = True) -> None:
        self.layers = layers
        self.gelu = gelu
        self._weight = _stacked([layer.weight for layer in layers])
        biases = [layer.bias for layer in layers if layer.bias is not None]
        self._bias = _stacked(biases) if biases else None
        self._multiply = (laid_out and self._laid_out()) or self._stacked

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
        del self._weight  # replaced by the laid-out copy
        return lambda tensor: apply(tensor, packed, self._bias, *after)

    def _stacked(self, tensor: torch.Tensor) -> torch.Tensor:
        out = F.linear(tensor, self._weight, self._bias)
        return F.gelu(out) if self.gelu else out

    def _plain(self, tensor: torch.Tensor) -> torch.Tensor:
        out = torch.cat([F.linear(tensor, layer.weight, layer.bias) for layer in self.layers], -1)
        return F.gelu(out) if self.gelu else out


def _stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return tensors[0].detach() if len(tensors) == 1 else torch.cat(list(tensors)).detach()


# One layer for all families, over plain tensors. It computes less than the general forward: query, key
# and value come from one product, rows of one length need no mask, and above the last mixing step only
# the token that the classifier reads is computed.


class Rotary:
    """Rotary positions (Su et al. 2021) of a model's layers of one kind, as its own module has them.

    A head's query and key are rotated by an angle proportional to the token's place, so that their
    product depends only on the distance.
    """

    def __init__(self, module: Any, kind: str | None) -> None:
        self.module, self.kind = module, kind
        self._cache: dict[tuple[int, torch.dtype, torch.device], tuple[torch.Tensor, ...]] = {}

    def rotate(self, tensor: torch.Tensor, length: int, place: At | None = None) -> torch.Tensor:
        """Rotated vectors of `length` tokens [..., batch, heads, length, width], or of that at `place`."""
        tracing = torch.compiler.is_exporting()
        cos, sin = self._computed(length, tensor) if tracing else self._cached(length, tensor)
        if isinstance(place, int):
            cos, sin = cos[place], sin[place]
        elif place is not None:
            cos, sin = cos[place][:, None, None], sin[place][:, None, None]
        low, high = tensor.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    def _cached(self, length: int, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`_computed`, once for all lengths up to the next multiple of 64."""
        longest = -(-length // 64) * 64
        key = (longest, like.dtype, like.device)
        if key not in self._cache:
            with torch.inference_mode(False):  # a later call may need gradients
                self._cache[key] = self._computed(longest, like)
        return tuple(table[:length] for table in self._cache[key])

    def _computed(self, length: int, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cosines and sines [length, width / 2]; the module has each twice, for both halves."""
        kinds = () if self.kind is None else (self.kind,)
        places = torch.arange(length, device=like.device)[None]
        return tuple(
            table[0, :, : like.shape[-1] // 2] for table in self.module(like, places, *kinds)
        )


class Relative:
    """The terms that distances add to a layer's attention scores (He et al. 2021, DeBERTa: disentangled attention).

    Content to position: the query with a vector of each distance; position to content: the key.
    """

    def __init__(self, encoder: Any, attention: Any, heads: int, width: int) -> None:
        self.span, self.attention = attention.pos_ebd_size, attention
        embedded = encoder.get_rel_embedding()[: 2 * self.span]
        kinds = attention.pos_att_type
        shared = attention.share_att_key
        named: dict[str, Any] = {
            "c2p": attention.key_proj if shared else getattr(attention, "pos_key_proj", None),
            "p2c": attention.query_proj if shared else getattr(attention, "pos_query_proj", None),
        }
        self.to = {
            kind: project(embedded).unflatten(-1, (heads, width)).transpose(0, 1).detach()
            for kind, project in named.items()
            if kind in kinds
        }  # [heads, 2 × span, width]
        self._places: dict[tuple[int, torch.device], torch.Tensor] = {}

    def scores(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """[..., heads, rows, length], of query [..., heads, rows, width]: all rows, or the first alone."""
        length, rows = key.shape[-2], query.shape[-2]
        reach = self._reach(length)
        columns = slice(self.span - reach, self.span + reach)
        places = self._distances(length, key.device)
        terms: list[torch.Tensor] = []
        if "c2p" in self.to:
            all_of = torch.matmul(query, self.to["c2p"][:, columns].transpose(-1, -2))
            terms.append(all_of.gather(-1, places[:rows].expand(*all_of.shape[:-1], length)))
        if "p2c" in self.to:
            all_of = torch.matmul(key, self.to["p2c"][:, columns].transpose(-1, -2))
            back = places.T[:, :rows]
            taken = all_of.gather(-1, back.expand(*all_of.shape[:-1], rows))
            terms.append(taken.transpose(-1, -2))
        return sum(terms[1:], terms[0])

    def _reach(self, length: int) -> int:
        """Vectors to multiply on either side: all, or in a short text those of its distances."""
        buckets = self.attention.position_buckets
        # Larger distances share a vector.
        unshared = self.span if buckets <= 0 else buckets // 2
        traced = torch.compiler.is_exporting()  # one graph for all lengths
        return self.span if traced or length > unshared else length

    def _distances(self, length: int, device: torch.device) -> torch.Tensor:
        """Row, column → the index of their distance among the multiplied vectors [length, length]."""
        if torch.compiler.is_exporting():
            return self._measured(length, device)
        if (length, device) not in self._places:
            with torch.inference_mode(False):
                self._places[length, device] = self._measured(length, device)
        return self._places[length, device]

    def _measured(self, length: int, device: torch.device) -> torch.Tensor:
        from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

        sizes = self.attention.position_buckets, self.attention.max_relative_positions
        line = torch.empty(length, 1, device=device)
        places = build_relative_position(line, line, *sizes)[0] + self.span
        return places.clamp(0, 2 * self.span - 1) - (self.span - self._reach(length))


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One layer's weights: `query`, `key` and `value` also stacked in `qkv`, `up` with its activation.

    A layer has `heads` heads of `width` numbers, and keys and values for `groups` groups of them, one
    for each head in most families; layers may differ, and have none. Norms come after their block, or,
    with `norm_before`, before it. `window` is how far a token sees.
    """

    heads: int
    groups: int
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
    norm_before: bool = False
    query_norm: Any = None
    key_norm: Any = None
    rotary: Rotary | None = None
    relative: Relative | None = None
    window: int | None = None
    scale: float = 1.0

    @property
    def dtype(self) -> torch.dtype:
        """The number type of the weights."""
        return self.query.weight.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.query.weight.device  # type: ignore[no-any-return]

    @property
    def units(self) -> int:
        """How many feed-forward units it has."""
        return int(self.down.layers[0].in_features)

    @cached_property
    def constant(self) -> torch.Tensor:
        """The attention output without heads: W_O's bias, or zeros [hidden]."""
        bias, weight = self.output.bias, self.output.weight
        with torch.inference_mode(False):
            return weight.new_zeros(weight.shape[0]) if bias is None else bias  # type: ignore[no-any-return]

    def entering(self, hidden: torch.Tensor) -> torch.Tensor:
        """The layer's input as the heads read it, normalised where norms come first."""
        return self.output_norm(hidden) if self.norm_before else hidden  # type: ignore[no-any-return]

    def project(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key, value, each [..., heads, length, width]."""
        shared = self.groups * self.width
        sizes = (self.heads * self.width, shared, shared)
        query, key, value = map(self.split, self.qkv(self.entering(hidden)).split(sizes, -1))
        return self._placed(query, hidden.shape[-2]), self._keys(key), self._for_heads(value)

    def project_row(
        self, hidden: torch.Tensor, place: At
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `project`, with the query of the token at `place` alone [..., heads, 1, width]."""
        read = self.entering(hidden)
        key, value = self._projected(self.key, read), self._projected(self.value, read)
        return self._query_at(read, place), self._keys(key), self._for_heads(value)

    def attend_row(
        self, hidden: torch.Tensor, bias: torch.Tensor | None, place: At
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention [batch, heads, 1, length] and z [batch, heads, 1, width] of the token at `place`.

        Σ α (W_V x) is W_V (Σ α x): no token's value is projected. Where nothing but a product lies
        between key and query, q·(W_K x) is (W_Kᵀ q)·x, and no key either; the key's bias adds the same
        to every score of a row, so the softmax does not see it.
        """
        read = self.entering(hidden)
        query = self._query_at(read, place)
        row_bias = None if bias is None else row_at(bias, place, axes=2)
        if self.groups == self.heads and self.rotary is self.relative is self.key_norm is None:
            directions = torch.einsum(
                "bhrw,hws->bhrs", query, self._by_head(self.key.weight)
            ).flatten(1, 2)
            scores = torch.matmul(directions * self.scale, read.transpose(1, 2))
            weights = softmax(scores.unflatten(1, (self.heads, 1)), row_bias)
        else:
            weights = self.attention(query, self._keys(self._projected(self.key, read)), row_bias)
        states = torch.matmul(weights.flatten(1, 2), read).unflatten(1, (self.heads, 1))
        z = torch.einsum("bhrs,hws->bhrw", states, self._by_head(self.value.weight))
        if self.value.bias is not None:
            z = z + self._by_head(self.value.bias)[:, None]
        return weights, z

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        """Head outputs [..., heads, rows, width]: attention · value; on a GPU without the maps."""
        if query.device.type != "cpu":
            if self.relative is not None:
                added = self.relative.scores(query, key) * self.scale
                bias = added if bias is None else added + bias
            return _attend_fused(query, key, value, bias, self.scale)
        return torch.matmul(self.attention(query, key, bias), value)

    def attention(
        self, query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """Attention weights [..., heads, rows, length]: softmax(scale · q·kᵀ + bias)."""
        query = query * self.scale
        scores = torch.matmul(query, key.transpose(-1, -2))
        if self.relative is not None:
            scores = scores + self.relative.scores(query, key * self.scale)
        return softmax(scores, bias)

    def split(self, tensor: torch.Tensor) -> torch.Tensor:
        """[..., length, heads or groups × width] → [..., heads or groups, length, width]."""
        return tensor.unflatten(-1, (tensor.shape[-1] // self.width, self.width)).transpose(-3, -2)

    def _projected(self, linear: Any, read: torch.Tensor) -> torch.Tensor:
        return self.split(F.linear(read, linear.weight, linear.bias))

    def _query_at(self, read: torch.Tensor, place: At) -> torch.Tensor:
        return self._placed(self._projected(self.query, row_at(read, place)), read.shape[-2], place)

    def _placed(self, query: torch.Tensor, length: int, place: At | None = None) -> torch.Tensor:
        query = query if self.query_norm is None else self.query_norm(query)
        return query if self.rotary is None else self.rotary.rotate(query, length, place)

    def _keys(self, key: torch.Tensor) -> torch.Tensor:
        key = key if self.key_norm is None else self.key_norm(key)
        return self._for_heads(
            key if self.rotary is None else self.rotary.rotate(key, key.shape[-2])
        )

    def _for_heads(self, tensor: torch.Tensor, axis: int = -3) -> torch.Tensor:
        """Repeat each group's keys or values for its heads."""
        if self.groups == self.heads:
            return tensor
        return tensor.repeat_interleave(self.heads // self.groups, axis)

    def _by_head(self, weight: torch.Tensor) -> torch.Tensor:
        """[heads or groups × width, ...] → [heads, width, ...]."""
        return self._for_heads(weight.unflatten(0, (self.groups, self.width)), 0)

    def mix(self, z: torch.Tensor) -> torch.Tensor:
        """W_O with bias over head outputs z [..., heads, rows, width]: [..., rows, hidden]."""
        return self.packed_output(z.transpose(-3, -2).flatten(-2))

    def mix_some(self, z: torch.Tensor, heads: Sequence[int]) -> torch.Tensor:
        """The share of some heads in `mix`, without the bias: [..., len(heads), rows, width] → [..., rows, hidden]."""
        columns = self.output.weight.unflatten(1, (self.heads, self.width))
        columns = columns[:, index(tuple(heads), columns.device)].flatten(1)
        return F.linear(z.transpose(-3, -2).flatten(-2), columns)

    def feed_forward(
        self,
        mixed: torch.Tensor,
        hidden: torch.Tensor,
        gates: torch.Tensor | None = None,
        *,
        block: bool = True,
    ) -> torch.Tensor:
        """The layer's output, from the heads' mixed output and its input, all [..., rows, hidden].

        `gates` [..., 1, units] multiply the activations of the feed-forward units. Without `block` the
        feed-forward block adds nothing; the norms stay.
        """
        output = mixed + hidden
        output = output if self.norm_before else self.output_norm(output)
        if block:
            units = self.up(self.down_norm(output) if self.norm_before else output)
            output = self.down(units if gates is None else units * gates) + output
        return output if self.norm_before else self.down_norm(output)  # type: ignore[no-any-return]

    def finish(self, z: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """The layer's output [batch, rows, hidden] from z [batch, heads, rows, width]."""
        return self.feed_forward(self.mix(z), hidden)

    def run(self, hidden: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """The layer's output for all tokens, from its input [..., L, hidden]."""
        if not self.heads:
            return self.feed_forward(self.constant, hidden)
        query, key, value = self.project(hidden)
        return self.finish(self.attend(query, key, value, bias), hidden)


class Encoder:
    """A checkpoint's encoder as a list of `Layer`, with its embeddings and its head.

    Built once per model, with copies of the weights, `laid_out` for the matrix kernel; later changes of
    the model's weights have no effect.
    """

    def __init__(self, model: Any, family: Family, *, laid_out: bool = True) -> None:
        self.model = model
        self.family = family
        self.backbone = family.backbone_of(model)
        self.reads = family.read_out(model.config)
        kinds: dict[str | None, Rotary] = {}
        self.layers = [
            _layer(family, self.backbone, module, kinds, partial(Packed, laid_out=laid_out))
            for module in family.layers_of(model)
        ]

    @property
    def device(self) -> torch.device:
        """Where the weights are; batches are moved there."""
        return self.layers[0].device

    def embed(self, batch: Batch) -> torch.Tensor:
        """Embeddings [B, L, hidden] of a batch of pairs."""
        return self.family.embed(self.model, batch.input_ids, batch.token_type_ids)

    def biases(self, batch: Batch) -> list[torch.Tensor | None]:
        """The additive mask of each layer's attention [B or 1, 1, 1 or L, L]; None where all is seen."""
        return self._biases(batch.length, batch.mask)

    def _biases(self, length: int, mask: torch.Tensor | None) -> list[torch.Tensor | None]:
        padding = None if mask is None else unseen(mask[:, None, None] == 0, self.layers[0].dtype)
        windows = {layer.window for layer in self.layers}
        seen = {window: self._seen(length, window, padding) for window in windows}
        return [seen[layer.window] for layer in self.layers]

    def _seen(
        self, length: int, window: int | None, padding: torch.Tensor | None
    ) -> torch.Tensor | None:
        """The mask of padding and of the columns outside the window or, in a causal model, behind a row."""
        hidden = hidden_places(length, window, self.family.causal, self.device)
        if hidden is None:
            return padding
        mask = unseen(hidden[None, None], self.layers[0].dtype)
        # All padding is behind a causal row.
        return mask if padding is None or self.family.causal else mask + padding

    def visible(self, number: int, length: int) -> torch.Tensor:
        """Whether a row of a text of `length` tokens sees a column in a layer [length, length]."""
        hidden = hidden_places(length, self.layers[number].window, self.family.causal, self.device)
        if hidden is None:
            return torch.ones(length, length, dtype=torch.bool, device=self.device)
        return ~hidden

    def logits_of(self, batch: Batch) -> torch.Tensor:
        """Logits [B, labels] of a batch of pairs."""
        batch = batch.to(self.device)
        last = self._read(self.embed(batch), self.biases(batch), batch.at, batch.mask)
        return self.family.head(self.model, last)

    def states(self, batch: Batch) -> Iterator[torch.Tensor]:
        """r0, the embeddings, to rn, the last layer's output, of a batch: each [B, L, hidden]."""
        batch = batch.to(self.device)
        hidden = self.embed(batch)
        yield hidden
        for layer, bias in zip(self.layers, self.biases(batch), strict=True):
            hidden = layer.run(hidden, bias)
            yield hidden

    def logits_by_layer(self, batch: Batch) -> torch.Tensor:
        """Logits [layers + 1, B, labels] of r0 … rn, each read as the model reads rn: its final norm, pooling
        and head ("logit lens", nostalgebraist 2020). The last are those of `logits_of`."""
        batch, mean = batch.to(self.device), self.reads == "mean"
        read = (state if mean else row_at(state, batch.at) for state in self.states(batch))
        pooled = (self.pooled(state, batch.mask) for state in read)
        return torch.stack([self.family.head(self.model, state) for state in pooled])

    def logits(
        self,
        input_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits [batch, labels] of texts [batch, length], padded behind.

        `mask` [batch, length] is 0 at padding; None means rows of one length. The last token that is read is
        none of padding, also where the mask has it: a tokenizer may end every pair with it.
        """
        hidden = self.family.embed(self.model, input_ids, token_type_ids)
        length = input_ids.shape[1]
        place: At = 0
        if self.reads == "last":
            tokens = (input_ids != self.model.config.pad_token_id) & (mask is None or mask.bool())
            place = (torch.arange(length, device=input_ids.device) * tokens).amax(1)
        last = self._read(hidden, self._biases(length, mask), place, mask)
        return self.family.head(self.model, last)

    def _read(
        self,
        hidden: torch.Tensor,
        biases: Sequence[torch.Tensor | None],
        place: At,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """The state that the classifier reads, from the embeddings; the last layer computes no other."""
        if self.reads == "mean":
            return self.pooled(self._through(hidden, biases), mask)
        hidden = self._through(hidden, biases[:-1])
        last, read = self.layers[-1], row_at(hidden, place)
        if not last.heads:
            return self.pooled(last.feed_forward(last.constant, read), None)
        _, z = last.attend_row(hidden, biases[-1], place)
        return self.pooled(last.finish(z, read), None)

    def pooled(self, hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """The state that the classifier reads [..., B, 1, hidden], from the last layer's output: that of
        the one token [..., B, 1, hidden], or of all tokens where their mean is read."""
        norm = self.family.final_norm
        hidden = hidden if norm is None else getattr(self.backbone, norm)(hidden)
        if self.reads != "mean":
            return hidden
        if mask is None:
            return hidden.mean(-2, keepdim=True)
        real = mask[..., None].to(hidden.dtype)
        return (hidden * real).sum(-2, keepdim=True) / real.sum(-2, keepdim=True)

    def _through(self, hidden: torch.Tensor, biases: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """All tokens' states after as many layers as there are biases."""
        for layer, bias in zip(self.layers, biases, strict=False):
            hidden = layer.run(hidden, bias)
        return hidden


def hidden_places(
    length: int, window: int | None, causal: bool, device: torch.device
) -> torch.Tensor | None:
    """Which columns a row of a text of `length` tokens does not see [length, length]; None: it sees all."""
    exporting = torch.compiler.is_exporting()  # a graph for every length
    narrow = window is not None and (exporting or length > window + 1)
    if not (narrow or causal):
        return None
    places = torch.arange(length, device=device)
    ahead = places[None] - places[:, None]
    unseen_places = ahead > 0 if causal else torch.zeros_like(ahead, dtype=torch.bool)
    return unseen_places | (ahead.abs() > window) if narrow else unseen_places  # type: ignore[operator]


def _attend_fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    """Attention by torch's fused kernels, which take four axes: leading axes are joined into one."""
    attend = F.scaled_dot_product_attention
    if query.ndim == 4:
        return attend(query, key, value, attn_mask=bias, scale=scale)
    ahead = query.shape[:-3]
    seen = None if bias is None else bias.expand(*ahead, *bias.shape[-3:]).flatten(0, -4)
    query, key, value = (tensor.flatten(0, -4) for tensor in (query, key, value))
    return attend(query, key, value, attn_mask=seen, scale=scale).unflatten(0, ahead)


def softmax(scores: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """softmax(scores + bias) over the last axis; half precision goes through float32, faster on a CPU."""
    masked = scores if bias is None else scores + bias
    if scores.dtype not in (torch.bfloat16, torch.float16):
        return torch.softmax(masked, -1)
    return torch.softmax(masked, -1, dtype=torch.float32).to(scores.dtype)


def unseen(hidden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An additive mask: 0, and half the dtype's minimum where `hidden`, so that two masks add up finite."""
    return torch.zeros_like(hidden, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min / 2)


def _layer(
    family: Family,
    backbone: Any,
    module: Any,
    kinds: dict[str | None, Rotary],
    pack: Callable[..., Packed],
) -> Layer:
    """A layer from its module; `kinds` are the rotary positions that layers of a kind share."""
    parts, width = family.parts, family.width(module)
    query, key, value = family.projections(module)
    kind = family.kind(module)
    rotary = relative = None
    terms = 1  # of an attention score; DeBERTa scales by their number, too
    if family.positions == "rotary":
        rotary = kinds.setdefault(kind, Rotary(backbone.rotary_emb, kind))
    elif family.positions == "relative" and at(module, "attention.self").relative_attention:
        relative = Relative(
            backbone.encoder, at(module, "attention.self"), family.heads(module), width
        )
        terms += len(relative.to)
    ups = [at(module, path) for path in parts.up]
    output, down = at(module, parts.output), at(module, parts.down)
    return Layer(
        heads=family.heads(module),
        groups=family.groups(module),
        width=width,
        query=query,
        key=key,
        value=value,
        qkv=pack([at(module, path) for path in parts.projections]),
        output=output,
        packed_output=pack((output,)),
        output_norm=at(module, parts.attention_norm),
        up=_activated(ups, at(module, parts.activation), family.gated, pack),
        down=pack((down,)),
        down_norm=at(module, parts.units_norm),
        norm_before=family.norm_before,
        query_norm=parts.query_norm and at(module, parts.query_norm),
        key_norm=parts.key_norm and at(module, parts.key_norm),
        rotary=rotary,
        relative=relative,
        window=family.window(module),
        scale=(width * terms) ** -0.5,
    )


def _activated(
    ups: Sequence[Any], activation: Any, gated: bool, pack: Callable[..., Packed]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The wider layer with its activation, in one operator where that is the exact GELU and no gate."""
    exact = getattr(activation, "act", activation) is F.gelu
    product = pack(ups, gelu=exact and not gated)
    if not gated:
        return product if exact else lambda tensor: activation(product(tensor))

    def of_both(tensor: torch.Tensor) -> torch.Tensor:
        active, gate = product(tensor).chunk(2, -1)
        return activation(active) * gate  # type: ignore[no-any-return]

    return of_both
