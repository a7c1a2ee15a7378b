"""A property erased by an affine map, and weights set back to before fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch

from qt_bert.ablation.interventions import (
    EMBEDDINGS,
    CleanCache,
    LayerIntervention,
    OfHeads,
)
from qt_bert.ablation.reference import PlainModel
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models.batches import At, row_at
from qt_bert.models.devices import index
from qt_bert.models.families import at
from qt_bert.models.forward import Encoder, Layer

# A property erased where the model would read it: an affine map of one layer's output.
#
# Everything above runs on freely, on what the map leaves. With the map of LEACE (Belrose et al.
# 2023, "LEACE: Perfect linear concept erasure in closed form") this is amnesic probing (Elazar et
# al. 2021): what the model loses says whether it used the property.


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x ↦ x − left·right·(x − centre), of vectors of `size` numbers.

    `left` [size, rank], `right` [rank, size], `centre` [size]; rank 0 changes nothing. Two maps are
    equal only where they are one. Raises ArgumentError for shapes that do not fit each other.
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
        """How many numbers a vector has."""
        return int(self.centre.shape[0])

    @property
    def rank(self) -> int:
        """How many directions it takes away."""
        return int(self.right.shape[0])

    def outputs(self, hidden: torch.Tensor, clean: CleanCache | None = None) -> torch.Tensor:
        """The map of every vector [..., size]; half precision goes through float32."""
        wide = hidden.float() if hidden.dtype.itemsize == 2 else hidden
        left, right, centre = (one.to(wide) for one in (self.left, self.right, self.centre))
        return (wide - ((wide - centre) @ right.T) @ left.T).to(hidden.dtype)


@dataclass(frozen=True)
class Erasure:
    """One place of the residual stream behind an affine map, at every token but padding.

    `place` 0 is what the embeddings give (r0), `place` n what layer n − 1 gives (rn). It concerns no
    head. Raises ArgumentError for a place below 0.
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
        """Another output of the layer below the place; `change.EMBEDDINGS` for r0."""
        return {self.place - 1: LayerIntervention(output=self.map)}

    def install(self, model: PlainModel) -> None:
        """The same by one whole matrix, token by token, in a hook behind the layer."""
        gone = self.map.left.double() @ self.map.right.double()

        def mapped(row: int, vectors: torch.Tensor) -> torch.Tensor:
            centred = vectors.double() - self.map.centre.double()
            return (vectors.double() - centred @ gone.T).to(vectors.dtype)

        model.map(self.place, mapped)


# Weights set back to what they were before fine-tuning: one head, a layer, or the whole encoder.
#
# What a head owns are the rows of the query, key and value projections that make its vectors, with
# their biases, and the columns of W_O that read its head output. LayerNorms, feed-forward blocks
# and W_O's bias belong to the layer. Pooler and classifier stay as they are tuned.


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedLayer(Layer):
    """A tuned layer in which the heads `taken` have the weights of `base`; nothing is copied."""

    tuned: Layer
    base: Layer
    taken: tuple[int, ...]

    @classmethod
    def of(cls, tuned: Layer, base: Layer, taken: tuple[int, ...]) -> MixedLayer:
        """`tuned` with some heads of `base`, a layer of the same shape."""
        own = {one.name: getattr(tuned, one.name) for one in fields(Layer)}
        return cls(**own, tuned=tuned, base=base, taken=taken)

    def project(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As of the tuned layer, with the base's rows where its heads are taken."""
        return self._mixed(self.tuned.project(hidden), self.base.project(hidden))

    def project_row(
        self, hidden: torch.Tensor, place: At
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same with the query of the token at `place` alone."""
        own, others = (one.project_row(hidden, place) for one in (self.tuned, self.base))
        return self._mixed(own, others)

    def attend_row(
        self, hidden: torch.Tensor, bias: torch.Tensor | None, place: At
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention and head outputs of the token at `place`."""
        query, key, value = self.project_row(hidden, place)
        own = None if bias is None else row_at(bias, place, axes=2)
        weights = self.attention(query, key, own)
        return weights, torch.matmul(weights, value)

    def mix(self, z: torch.Tensor) -> torch.Tensor:
        """W_O over all head outputs: it is linear, so the taken heads' columns are exchanged behind
        it."""
        part = z[..., index(self.taken, z.device), :, :]
        others = self.base.mix_some(part, self.taken) - self.tuned.mix_some(part, self.taken)
        return self.tuned.mix(z) + others

    def mix_some(self, z: torch.Tensor, heads: Any) -> torch.Tensor:
        """The share of some heads in `mix`."""
        from_base = [at for at, head in enumerate(heads) if head in self.taken]
        own = [at for at in range(len(heads)) if at not in from_base]
        parts = [
            one.mix_some(z[..., index(tuple(at), z.device), :, :], [heads[place] for place in at])
            for one, at in ((self.tuned, own), (self.base, from_base))
            if at
        ]
        return sum(parts[1:], parts[0])

    def _mixed(
        self, own: tuple[torch.Tensor, ...], others: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        for one, other in zip(own, others, strict=True):
            taken = index(self.taken, one.device)
            one[..., taken, :, :] = other[..., taken, :, :]
        return own  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Earlier:
    """The model before fine-tuning, as a source of weights for the tuned one.

    Raises ArgumentError where the two differ in layers, heads or sizes, or in what they embed.
    """

    base: Encoder = field(repr=False)  # a part's repr is its key when a sweep resumes
    tuned: Encoder = field(repr=False)
    _made: dict[tuple[int, tuple[int, ...]], Layer] = field(default_factory=dict, repr=False)

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
        """The base's whole layer."""
        return self.base.layers[number]

    def with_heads(self, number: int, heads: tuple[int, ...]) -> Layer:
        """The tuned layer with the base's heads; one object for one set, so that variants share it."""
        key = (number, heads)
        if key not in self._made:
            tuned, base = self.tuned.layers[number], self.base.layers[number]
            self._made[key] = MixedLayer.of(tuned, base, heads)
        return self._made[key]

    def outputs(self, hidden: torch.Tensor, clean: CleanCache) -> torch.Tensor:
        """What the base's embeddings give [B, L, size]: an `OutputEdit` of the embeddings."""
        return self.base.embed(clean.batch)


@dataclass(frozen=True)
class Reverted(OfHeads):
    """Some heads with the weights they had before fine-tuning. Raises ArgumentError for no heads."""

    earlier: Earlier
    kind: ClassVar[str] = "revert"
    means: ClassVar[None] = None

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(weights=self.earlier.with_heads(layer, heads))

    def install(self, model: PlainModel) -> None:
        """Write the base's rows and columns into the Hugging Face model's own weights."""
        family = model.family
        source = family.layers_of(self.earlier.base.model)
        for head in self.heads:
            ours, theirs = model.layers[head.layer], source[head.layer]
            width = family.width(ours)
            rows = slice(head.head * width, (head.head + 1) * width)
            for own, other in zip(
                family.projections(ours), family.projections(theirs), strict=True
            ):
                model.write(own.weight, rows, other.weight.data[rows])
                model.write(own.bias, rows, other.bias.data[rows])
            columns = (slice(None), rows)
            own, other = (at(one, family.parts.output).weight for one in (ours, theirs))
            model.write(own, columns, other.data[columns])


@dataclass(frozen=True)
class RevertedLayers:
    """Whole layers, and where `embeddings` says so what the embeddings give, from before fine-tuning.

    It concerns no head by name. Raises ArgumentError where nothing is named.
    """

    layers: tuple[int, ...]
    earlier: Earlier
    embeddings: bool = False
    kind: ClassVar[str] = "revert"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.layers and not self.embeddings:
            raise ArgumentError("no layer to set back")

    def changes(self) -> Mapping[int, LayerIntervention]:
        """The base's layers, and an exchange of the embeddings."""
        found = {
            number: LayerIntervention(weights=self.earlier.layer(number)) for number in self.layers
        }
        return found | (
            {EMBEDDINGS: LayerIntervention(output=self.earlier)} if self.embeddings else {}
        )

    def install(self, model: PlainModel) -> None:
        """Write all the base's parameters of these modules over the model's own."""
        source = self.earlier.base.backbone
        layers = model.family.layers_of(self.earlier.base.model)
        pairs = [(model.layers[number], layers[number]) for number in self.layers]
        if self.embeddings:
            pairs.append((model.backbone.embeddings, source.embeddings))
            if hasattr(model.backbone, "embeddings_project"):
                pairs.append((model.backbone.embeddings_project, source.embeddings_project))
        for ours, theirs in pairs:
            for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                model.write(own, slice(None), other.data)


def _sizes(encoder: Encoder) -> str:
    """What must agree, spelled: layers by heads and width, sizes, tokens, positions, segments."""
    layers = [f"{layer.heads}×{layer.width}" for layer in encoder.layers]
    config = encoder.model.config
    shared = sorted(set(layers))
    return (
        f"{len(layers)} layers of {', '.join(shared)}, {config.hidden_size} numbers a token, "
        f"{config.intermediate_size} within feed-forwards, "
        f"{config.vocab_size} tokens, {config.max_position_embeddings} positions, "
        f"{getattr(config, 'type_vocab_size', 0)} segments"
    )
