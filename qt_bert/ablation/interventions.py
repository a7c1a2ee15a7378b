"""What a variant does differently in a layer, and the clean cache that patches and paths read."""

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

# The clean model on a batch: what patches put in, and what paths hold still.


@dataclass(eq=False)
class CleanCache:
    """One batch of B pairs of L tokens under the plain model, which runs when it is first asked for.

    `biases` has each layer's additive mask (`Encoder.biases`), `embedded` [B, L, size] is what the
    embeddings give.
    """

    encoder: Encoder
    batch: Batch
    biases: Sequence[torch.Tensor | None]
    embedded: torch.Tensor = field(repr=False)
    _derived: dict[Hashable, torch.Tensor] = field(default_factory=dict, repr=False)

    def states(self, place: int) -> torch.Tensor:
        """The residual stream [B, L, size]: place 0 behind the embeddings, n behind layer n − 1."""
        return self._run[0][place]

    def z(self, layer: int) -> torch.Tensor:
        """What a layer's heads give [B, heads, L, width]."""
        return self._run[1][layer]

    def mixed(self, layer: int) -> torch.Tensor:
        """W_O over `z` [B, L, size]."""
        return self.derived(("mixed", layer), lambda: self.encoder.layers[layer].mix(self.z(layer)))

    @cached_property
    def of_donor(self) -> CleanCache:
        """The same of the batch's donor. Raises ArgumentError where it has none."""
        donor = self.batch.donor
        if donor is None:
            raise ArgumentError("this batch has no donor to take anything from")
        return CleanCache(self.encoder, donor, self.biases, self.encoder.embed(donor))

    def derived(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What `make` gives, made once for all variants that ask under the same key."""
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


# What a variant does differently in one layer, in the only terms that the masked loop knows.


Projections = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Query [B, heads, rows, width], key and value [B, heads, L, width]."""


@dataclass(frozen=True, eq=False)
class Site:
    """One layer of one variant at work on a batch of B pairs of L tokens.

    `hidden` [B, L, hidden] is the layer's input; `bias` is added to the attention scores before
    the softmax and broadcasts over [B, heads, L, L] (None: nothing is masked). `rows` is L, or 1
    where the first token alone is still needed. `project` gives the projections, which are not
    computed unless they are asked for; `clean` is the clean model on the same batch, which
    is not run unless it is asked for.
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
    """Other head outputs for some heads of a layer. Equal edits must give equal head outputs."""

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads whose head outputs it replaces."""

    @property
    def mixes(self) -> bool:
        """Whether the new head outputs depend on the layer's input; False for constants."""

    def z(self, site: Site) -> torch.Tensor | None:
        """New head outputs [B or 1, len(heads), rows or 1, width]; None for zeros.

        An edit that does not mix must not ask for the projections: there may be none.
        """


def edit_z(z: torch.Tensor, edit: ZEdit, site: Site) -> torch.Tensor:
    """`z` [B, heads, rows, width] with an edit's head outputs put in, in place."""
    new = edit.z(site)
    heads = index(edit.heads, z.device)
    if new is None:
        return z.index_fill_(1, heads, 0)
    z[:, heads] = new
    return z


class AttentionEdit(Protocol):
    """Something added to the attention scores."""

    def bias(self, site: Site) -> torch.Tensor:
        """Additive mask, broadcastable to [B, heads, L, L]; it is added to the site's own."""


class ProjectionEdit(Protocol):
    """Other queries, keys or values, as from another input of one of these projections."""

    def projections(self, site: Site) -> Projections:
        """The projections to go on with; the site's own must not be written to."""


class OutputEdit(Protocol):
    """Another output of a layer."""

    def outputs(self, hidden: torch.Tensor, clean: CleanCache) -> torch.Tensor:
        """From what the layer gives [B, rows, hidden] to what goes on; `hidden` is not written to.

        What it makes of padding does not matter: the loop keeps padding as it was.
        """


EMBEDDINGS = -1
"""The number under which the embeddings' output is changed; only `LayerIntervention.output` is
known there."""


@dataclass(frozen=True)
class MeanZ:
    """A vector for each head: its head output averaged over the real tokens of a reference set.

    `vectors` [layers, heads, width], float32; two are equal where their `sha256` is.
    """

    sha256: str
    vectors: torch.Tensor = field(compare=False, repr=False)


@dataclass(frozen=True)
class LayerIntervention:
    """What differs in one layer; a part that is None is as in the plain model.

    The order is that of the layer: `weights` stand in for the layer's own, `projections` alters
    query, key and value, `attention` the scores, `z` what the heads give, `output` what the layer
    hands on. `skipped` hands the layer's input on as its output, so nothing else can be changed
    there (ArgumentError). Changes are compared, and what two variants of a batch have in common is
    computed once.
    """

    z: ZEdit | None = None
    attention: AttentionEdit | None = None
    projections: ProjectionEdit | None = None
    weights: Layer | None = None
    output: OutputEdit | None = None
    skipped: bool = False

    def __post_init__(self) -> None:
        others = (self.z, self.attention, self.projections, self.weights, self.output)
        if self.skipped and any(one is not None for one in others):
            raise ArgumentError("a layer that is left out whole cannot be changed besides")

    @property
    def shares_z(self) -> bool:
        """Whether the heads attend as in the plain layer, so that only head outputs differ."""
        return self.attention is None and self.projections is None and self.weights is None

    @property
    def inside(self) -> LayerIntervention:
        """What differs before the layer's output: variants that share it run the layer once."""
        return self if self.output is None else replace(self, output=None)

    def mixes(self, heads: int) -> bool:
        """Whether tokens of a layer of `heads` heads still see each other under this change."""
        if self.skipped:
            return False
        edit = self.z
        return edit is None or edit.mixes or len(edit.heads) < heads


# Variants: the ways in which a sweep runs the model.


class Intervention(Protocol):
    """One thing that a variant changes: a head mask, a cut between the texts, a patch."""

    @property
    def kind(self) -> str:
        """`zero`, `uniform`, `mean`, `block`, …: the column `mode` of `variants.csv`."""

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads it concerns, sorted."""

    @property
    def means(self) -> MeanZ | None:
        """The mean head outputs that it puts in, where it does."""

    def changes(self) -> Mapping[int, LayerIntervention]:
        """Layer → what differs there."""

    def install(self, model: PlainModel) -> None:
        """Do the same to the Hugging Face model, slowly and plainly: what the checks compare
        with."""


@dataclass(frozen=True)
class OfHeads(ABC):
    """What changes some heads, layer by layer: sorted, each once. Raises ArgumentError for no heads."""

    heads: tuple[Head, ...]

    def __post_init__(self: Any) -> None:
        if not self.heads:
            raise ArgumentError(
                f"no heads for {self.kind!r}; the plain model is the variant `none`"
            )
        object.__setattr__(self, "heads", tuple(sorted(set(self.heads))))

    @abstractmethod
    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        """What differs in a layer that has such heads."""

    def changes(self) -> Mapping[int, LayerIntervention]:
        """`change` of each layer that has such heads."""
        return {layer: self.change(layer, heads) for layer, heads in by_layer(self.heads).items()}


@dataclass(frozen=True)
class Variant:
    """One way to run the model. Without parts it is the plain model, called `none`.

    `family` groups the variants that are tested together (`single`, `layers`, …); `draw` and
    `seed` tell random draws apart.
    """

    name: str
    parts: tuple[Intervention, ...] = ()
    family: str = ""
    draw: int | None = None
    seed: int | None = None

    @cached_property
    def changes(self) -> Mapping[int, LayerIntervention]:
        """Layer → what differs there, over all parts.

        Raises ArgumentError where two parts change the same thing of one layer.
        """
        merged: dict[int, LayerIntervention] = {}
        for part in self.parts:
            for layer, change in part.changes().items():
                merged[layer] = _both(
                    merged.get(layer, LayerIntervention()), change, self.name, layer
                )
        return merged

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads its parts concern, sorted."""
        return tuple(sorted({head for part in self.parts for head in part.heads}))

    @property
    def mode(self) -> str:
        """The kinds of its parts, joined by `+`."""
        return "+".join(part.kind for part in self.parts)


NONE = Variant("none")
"""The plain model."""


def _both(
    one: LayerIntervention, other: LayerIntervention, name: str, layer: int
) -> LayerIntervention:
    added = {key: value for key, value in vars(other).items() if value}
    for key in added:
        if getattr(one, key):
            raise ArgumentError(f"variant {name!r} changes the {key} of layer {layer} twice")
    try:
        return replace(one, **added)
    except ArgumentError as error:
        raise ArgumentError(f"variant {name!r}, layer {layer}: {error}") from error


def with_plain(variants: Sequence[Variant]) -> list[Variant]:
    """`variants` with `none` first. Raises ArgumentError for two of one name, or one without parts."""
    listed = [NONE, *(variant for variant in variants if variant != NONE)]
    names: set[str] = set()
    for variant in listed:
        if not variant.parts and variant is not NONE:
            raise ArgumentError(
                f"variant {variant.name!r} changes nothing; the plain model is `none`"
            )
        if variant.name in names:
            raise ArgumentError(f"two variants are named {variant.name!r}")
        names.add(variant.name)
    return listed
