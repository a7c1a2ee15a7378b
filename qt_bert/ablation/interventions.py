"""Variants, their interventions by layer, and the clean cache that patches and paths read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import torch

from qt_bert.ablation.reference import PlainModel
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, by_layer
from qt_bert.models.batches import Batch
from qt_bert.models.devices import index
from qt_bert.models.forward import Encoder, Layer


@dataclass(eq=False)
class CleanCache:
    """The plain model's states on one batch of B pairs of L tokens, computed on first use.

    `biases`: each layer's additive mask (`Encoder.biases`); `embedded` [B, L, size]: the embeddings'
    output.
    """

    encoder: Encoder
    batch: Batch
    biases: Sequence[torch.Tensor | None]
    embedded: torch.Tensor = field(repr=False)
    _derived: dict[Hashable, torch.Tensor] = field(default_factory=dict, repr=False)

    def states(self, place: int) -> torch.Tensor:
        """The residual stream [B, L, size]: place 0 after the embeddings, n after layer n − 1."""
        return self._run[0][place]

    def z(self, layer: int) -> torch.Tensor:
        """A layer's head outputs [B, heads, L, width]."""
        return self._run[1][layer]

    def mixed(self, layer: int) -> torch.Tensor:
        """W_O over `z` [B, L, size]."""
        return self.derived(("mixed", layer), lambda: self.encoder.layers[layer].mix(self.z(layer)))

    @cached_property
    def donor(self) -> CleanCache:
        """The cache of the batch's donor. Raises ArgumentError where it has none."""
        donor = self.batch.donor
        if donor is None:
            raise ArgumentError("this batch has no donor")
        return CleanCache(self.encoder, donor, self.biases, self.encoder.embed(donor))

    def derived(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """`make()`, computed once a key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    @cached_property
    def _run(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        states, z = [self.embedded], []
        for layer, bias in zip(self.encoder.layers, self.biases, strict=True):
            z.append(layer.attend(*layer.project(states[-1]), bias))
            states.append(layer.finish(z[-1], states[-1]))
        return states, z


# Changes of one layer, as the masked loop applies them.


Projections = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Query [B, heads, rows, width], key and value [B, heads, L, width]."""


@dataclass(frozen=True, eq=False)
class Site:
    """One layer of one variant on a batch of B pairs of L tokens.

    `hidden` [B, L, hidden]: the layer's input. `bias`: added to the attention scores before the softmax,
    broadcastable to [B, heads, L, L] (None: nothing is masked). `rows`: L, or 1 where only the token
    that is read is still needed. `project` computes the projections, `clean` the clean run, on demand.
    """

    number: int
    layer: Layer
    batch: Batch
    hidden: torch.Tensor
    project: Callable[[], Projections]
    bias: torch.Tensor | None
    rows: int
    clean: CleanCache


class ZEdit(Protocol):
    """Replaces head outputs of a layer. Equal edits must give equal head outputs."""

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads that it replaces."""

    @property
    def mixes(self) -> bool:
        """Whether the new outputs depend on the layer's input; False for constants."""

    def z(self, site: Site) -> torch.Tensor | None:
        """New head outputs [B or 1, len(heads), rows or 1, width]; None for zeros.

        An edit that does not mix must not use `site.project`.
        """


def edit_z(z: torch.Tensor, edit: ZEdit, site: Site) -> torch.Tensor:
    """Apply an edit to `z` [B, heads, rows, width] in place."""
    new = edit.z(site)
    heads = index(edit.heads, z.device)
    if new is None:
        return z.index_fill_(1, heads, 0)
    z[:, heads] = new
    return z


class AttentionEdit(Protocol):
    """Adds to the attention scores."""

    def bias(self, site: Site) -> torch.Tensor:
        """A mask, broadcastable to [B, heads, L, L], that is added to `site.bias`."""


class ProjectionEdit(Protocol):
    """Replaces queries, keys or values."""

    def projections(self, site: Site) -> Projections:
        """The new projections; must not write to the site's."""


class OutputEdit(Protocol):
    """Replaces the output of a layer."""

    def outputs(self, hidden: torch.Tensor, clean: CleanCache) -> torch.Tensor:
        """A new tensor for `hidden` [B, rows, hidden]; what it holds at padding is ignored."""


EMBEDDINGS = -1
"""The layer number of the embeddings, where only `LayerIntervention.output` applies."""


@dataclass(frozen=True)
class MeanZ:
    """Each head's output averaged over the real tokens of a reference set.

    `vectors` [layers, heads, width], float32; compared by `sha256`.
    """

    sha256: str
    vectors: torch.Tensor = field(compare=False, repr=False)


@dataclass(frozen=True)
class LayerIntervention:
    """The changes of one layer; None is as in the plain model.

    In the order of the layer: `projections` edits query, key and value, `attention` the scores, `z` the
    head outputs, `output` the layer's output; the feed-forward block adds nothing where
    `no_feed_forward`. A `skipped` layer returns its input and takes no other change (ArgumentError).
    Equal changes of two variants are computed once.
    """

    z: ZEdit | None = None
    attention: AttentionEdit | None = None
    projections: ProjectionEdit | None = None
    output: OutputEdit | None = None
    no_feed_forward: bool = False
    skipped: bool = False

    def __post_init__(self) -> None:
        others = (self.z, self.attention, self.projections, self.output)
        if self.skipped and (self.no_feed_forward or any(change is not None for change in others)):
            raise ArgumentError("a layer that is left out whole cannot be changed besides")

    @property
    def shares_z(self) -> bool:
        """Whether attention is the plain layer's, so that only head outputs may differ."""
        return self.attention is None and self.projections is None

    @property
    def inside(self) -> LayerIntervention:
        """The changes but that of the output: variants that share them run the layer once."""
        return self if self.output is None else replace(self, output=None)

    def mixes(self, heads: int) -> bool:
        """Whether tokens of a layer of `heads` heads still attend to each other."""
        if self.skipped:
            return False
        edit = self.z
        return edit is None or edit.mixes or len(edit.heads) < heads


class Intervention(Protocol):
    """One change of a variant: a head mask, a cut between the texts, a patch."""

    @property
    def kind(self) -> str:
        """`zero`, `uniform`, `mean`, `block`, …: the column `mode` of `variants.csv`."""

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads it changes, sorted."""

    @property
    def means(self) -> MeanZ | None:
        """The mean head outputs that it uses, if any."""

    def changes(self) -> Mapping[int, LayerIntervention]:
        """Layer → its change."""

    def install(self, model: PlainModel) -> None:
        """The same change of the Hugging Face model, for the equivalence checks."""


@dataclass(frozen=True)
class OfHeads(ABC):
    """A change of some heads, sorted, each once. Raises ArgumentError for no heads."""

    heads: tuple[Head, ...]

    def __post_init__(self: Any) -> None:
        if not self.heads:
            raise ArgumentError(
                f"no heads for {self.kind!r}; the plain model is the variant `none`"
            )
        object.__setattr__(self, "heads", tuple(sorted(set(self.heads))))

    @abstractmethod
    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        """The change of a layer with such heads."""

    def changes(self) -> Mapping[int, LayerIntervention]:
        """`change` of each layer with such heads."""
        return {layer: self.change(layer, heads) for layer, heads in by_layer(self.heads).items()}


@dataclass(frozen=True)
class Variant:
    """A named set of interventions; without any the plain model, `none`.

    `family` groups the variants that are tested together (`single`, `layers`, …); `draw` and `seed`
    identify a random draw.
    """

    name: str
    parts: tuple[Intervention, ...] = ()
    family: str = ""
    draw: int | None = None
    seed: int | None = None

    @cached_property
    def changes(self) -> Mapping[int, LayerIntervention]:
        """Layer → its change, over all parts. Raises ArgumentError where two change the same."""
        merged: dict[int, LayerIntervention] = {}
        for part in self.parts:
            for layer, change in part.changes().items():
                merged[layer] = _merged(
                    merged.get(layer, LayerIntervention()), change, self.name, layer
                )
        return merged

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads of its parts, sorted."""
        return tuple(sorted({head for part in self.parts for head in part.heads}))

    @property
    def mode(self) -> str:
        """The kinds of its parts, joined by `+`."""
        return "+".join(part.kind for part in self.parts)


NONE = Variant("none")
"""The plain model."""


def _merged(
    first: LayerIntervention, second: LayerIntervention, name: str, layer: int
) -> LayerIntervention:
    added = {key: value for key, value in vars(second).items() if value}
    for key in added:
        if getattr(first, key):
            raise ArgumentError(f"variant {name!r} changes the {key} of layer {layer} twice")
    try:
        return replace(first, **added)
    except ArgumentError as error:
        raise ArgumentError(f"variant {name!r}, layer {layer}: {error}") from error


def with_plain(variants: Sequence[Variant]) -> list[Variant]:
    """`variants` with `none` first. Raises ArgumentError for a repeated name and a second plain model."""
    result = [NONE, *(variant for variant in variants if variant != NONE)]
    names: set[str] = set()
    for variant in result:
        if not variant.parts and variant is not NONE:
            raise ArgumentError(
                f"variant {variant.name!r} changes nothing; the plain model is `none`"
            )
        if variant.name in names:
            raise ArgumentError(f"two variants are named {variant.name!r}")
        names.add(variant.name)
    return result
