"""Interventions on weights: concept erasure by an affine map, and weights from before fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch

from qt_bert.ablation.interventions import EMBEDDINGS, CleanCache, LayerIntervention, OfHeads
from qt_bert.ablation.reference import PlainModel
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models.batches import At, row_at
from qt_bert.models.devices import index
from qt_bert.models.families import at
from qt_bert.models.forward import Encoder, Layer

# Concept erasure by an affine map of one layer's output: with the map of LEACE (Belrose et al. 2023,
# "LEACE: Perfect linear concept erasure in closed form") this is amnesic probing (Elazar et al. 2021).


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x ↦ x − left·right·(x − centre).

    `left` [size, rank], `right` [rank, size], `centre` [size]; rank 0 changes nothing. Compared by
    identity. Raises ArgumentError for inconsistent shapes.
    """

    left: torch.Tensor = field(repr=False)
    right: torch.Tensor = field(repr=False)
    centre: torch.Tensor = field(repr=False)

    def __post_init__(self) -> None:
        (size,) = self.centre.shape
        if self.left.shape != (size, self.rank) or self.right.shape != (self.rank, size):
            raise ArgumentError(
                f"no affine map of {size} numbers: left {tuple(self.left.shape)}, "
                f"right {tuple(self.right.shape)}"
            )

    @property
    def size(self) -> int:
        """The length of a vector."""
        return int(self.centre.shape[0])

    @property
    def rank(self) -> int:
        """The number of directions it removes."""
        return int(self.right.shape[0])

    def outputs(self, hidden: torch.Tensor, clean: CleanCache | None = None) -> torch.Tensor:
        """The map of every vector [..., size]; half precision goes through float32."""
        wide = hidden.float() if hidden.dtype.itemsize == 2 else hidden
        left, right, centre = (t.to(wide) for t in (self.left, self.right, self.centre))
        return (wide - ((wide - centre) @ right.T) @ left.T).to(hidden.dtype)


@dataclass(frozen=True)
class Erasure:
    """An affine map of the residual stream at one place, at every token but padding.

    `place` 0 (r0) is after the embeddings, n (rn) after layer n − 1. Raises ArgumentError for a place
    below 0.
    """

    place: int
    map: AffineMap
    kind: ClassVar[str] = "erase"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.place < 0:
            raise ArgumentError(f"r{self.place}: places are counted from r0, the embeddings")

    def changes(self) -> Mapping[int, LayerIntervention]:
        """Another output of the layer below the place; `EMBEDDINGS` for r0."""
        return {self.place - 1: LayerIntervention(output=self.map)}

    def install(self, model: PlainModel) -> None:
        """The same with one matrix, in a hook after the layer."""
        gone = self.map.left.double() @ self.map.right.double()

        def mapped(row: int, vectors: torch.Tensor) -> torch.Tensor:
            centred = vectors.double() - self.map.centre.double()
            return (vectors.double() - centred @ gone.T).to(vectors.dtype)

        model.map(self.place, mapped)


# Weights from before fine-tuning, of a head, a layer or the whole encoder.
#
# A head's weights are its rows of the query, key and value projections, with biases, and its columns of
# W_O. LayerNorms, feed-forward blocks and W_O's bias belong to the layer. Pooler and classifier stay
# tuned.


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedLayer(Layer):
    """A tuned layer whose heads `reverted` have the weights of `base`; nothing is copied."""

    tuned: Layer
    base: Layer
    reverted: tuple[int, ...]

    @classmethod
    def of(cls, tuned: Layer, base: Layer, reverted: tuple[int, ...]) -> MixedLayer:
        """`tuned` with some heads of `base`, a layer of the same shape."""
        values = {field.name: getattr(tuned, field.name) for field in fields(Layer)}
        return cls(**values, tuned=tuned, base=base, reverted=reverted)

    def project(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The tuned layer's projections, with the base's for reverted heads."""
        return self._mixed(self.tuned.project(hidden), self.base.project(hidden))

    def project_row(
        self, hidden: torch.Tensor, position: At
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same with the query of the token at `position` alone."""
        tuned, base = (layer.project_row(hidden, position) for layer in (self.tuned, self.base))
        return self._mixed(tuned, base)

    def attend_row(
        self, hidden: torch.Tensor, bias: torch.Tensor | None, position: At
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention and head outputs of the token at `position`."""
        query, key, value = self.project_row(hidden, position)
        row_bias = None if bias is None else row_at(bias, position, axes=2)
        weights = self.attention(query, key, row_bias)
        return weights, torch.matmul(weights, value)

    def mix(self, z: torch.Tensor) -> torch.Tensor:
        """W_O over all head outputs; it is linear, so the reverted heads' part is exchanged."""
        part = z[..., index(self.reverted, z.device), :, :]
        base, tuned = (layer.mix_some(part, self.reverted) for layer in (self.base, self.tuned))
        return self.tuned.mix(z) + (base - tuned)

    def mix_some(self, z: torch.Tensor, heads: Any) -> torch.Tensor:
        """The part of some heads in `mix`."""
        base = [i for i, head in enumerate(heads) if head in self.reverted]
        tuned = [i for i in range(len(heads)) if i not in base]
        parts = [
            layer.mix_some(z[..., index(tuple(rows), z.device), :, :], [heads[i] for i in rows])
            for layer, rows in ((self.tuned, tuned), (self.base, base))
            if rows
        ]
        return sum(parts[1:], parts[0])

    def _mixed(
        self, tuned: tuple[torch.Tensor, ...], base: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`tuned`, with the reverted heads' values of `base` written into it."""
        for ours, theirs in zip(tuned, base, strict=True):
            heads = index(self.reverted, ours.device)
            ours[..., heads, :, :] = theirs[..., heads, :, :]
        return tuned  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class BaseWeights:
    """The weights of the model before fine-tuning, for the tuned one.

    Raises ArgumentError where the two differ in layers, heads, sizes or embeddings.
    """

    base: Encoder = field(repr=False)  # the repr of a part is in a sweep's key
    tuned: Encoder = field(repr=False)
    _layers: dict[tuple[int, tuple[int, ...]], Layer] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.tuned.family.heads_share:
            raise ArgumentError(
                "weights of single heads cannot be set back: its heads share weights (norms, positions) "
                "within a layer"
            )
        ours, theirs = _sizes(self.tuned), _sizes(self.base)
        if ours != theirs:
            raise ArgumentError(
                f"the base's weights ({theirs}) do not fit the model's ({ours}); give as --base the "
                "model that it was tuned from"
            )

    def layer(self, number: int) -> Layer:
        """The base's layer."""
        return self.base.layers[number]

    def with_heads(self, number: int, heads: tuple[int, ...]) -> Layer:
        """The tuned layer with the base's heads; the same object for the same heads, so that variants
        share it."""
        key = (number, heads)
        if key not in self._layers:
            tuned, base = self.tuned.layers[number], self.base.layers[number]
            self._layers[key] = MixedLayer.of(tuned, base, heads)
        return self._layers[key]

    def outputs(self, hidden: torch.Tensor, clean: CleanCache) -> torch.Tensor:
        """The base's embeddings [B, L, size]: the `OutputEdit` of the embeddings."""
        return self.base.embed(clean.batch)


@dataclass(frozen=True)
class Reverted(OfHeads):
    """Some heads with their weights from before fine-tuning. Raises ArgumentError for no heads."""

    weights: BaseWeights
    kind: ClassVar[str] = "revert"
    means: ClassVar[None] = None

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(weights=self.weights.with_heads(layer, heads))

    def install(self, model: PlainModel) -> None:
        """Write the base's rows and columns into the Hugging Face model's weights."""
        family = model.family
        base_layers = family.layers_of(self.weights.base.model)
        for head in self.heads:
            layers = model.layers[head.layer], base_layers[head.layer]
            width = family.width(layers[0])
            rows = slice(head.head * width, (head.head + 1) * width)
            for tuned, base in zip(*map(family.projections, layers), strict=True):
                model.write(tuned.weight, rows, base.weight.data[rows])
                model.write(tuned.bias, rows, base.bias.data[rows])
            columns = (slice(None), rows)
            tuned, base = (at(layer, family.parts.output).weight for layer in layers)
            model.write(tuned, columns, base.data[columns])


@dataclass(frozen=True)
class RevertedLayers:
    """Whole layers, and with `embeddings` the embeddings, from before fine-tuning.

    Raises ArgumentError for neither.
    """

    layers: tuple[int, ...]
    weights: BaseWeights
    embeddings: bool = False
    kind: ClassVar[str] = "revert"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.layers and not self.embeddings:
            raise ArgumentError("no layer to set back")

    def changes(self) -> Mapping[int, LayerIntervention]:
        """The base's layers, and the base's embeddings."""
        changes = {n: LayerIntervention(weights=self.weights.layer(n)) for n in self.layers}
        if self.embeddings:
            changes[EMBEDDINGS] = LayerIntervention(output=self.weights)
        return changes

    def install(self, model: PlainModel) -> None:
        """Write the base's parameters of these modules into the model's."""
        source = self.weights.base.backbone
        layers = model.family.layers_of(self.weights.base.model)
        pairs = [(model.layers[number], layers[number]) for number in self.layers]
        if self.embeddings:
            pairs.append((model.backbone.embeddings, source.embeddings))
            if hasattr(model.backbone, "embeddings_project"):
                pairs.append((model.backbone.embeddings_project, source.embeddings_project))
        for ours, theirs in pairs:
            for tuned, base in zip(ours.parameters(), theirs.parameters(), strict=True):
                model.write(tuned, slice(None), base.data)


def _sizes(encoder: Encoder) -> str:
    """A description of layers, sizes, tokens, positions and segments, for comparison."""
    shapes = sorted({f"{layer.heads}×{layer.width}" for layer in encoder.layers})
    config = encoder.model.config
    return (
        f"{len(encoder.layers)} layers of {', '.join(shapes)}, {config.hidden_size} numbers a token, "
        f"{config.intermediate_size} within feed-forwards, "
        f"{config.vocab_size} tokens, {config.max_position_embeddings} positions, "
        f"{getattr(config, 'type_vocab_size', 0)} segments"
    )
