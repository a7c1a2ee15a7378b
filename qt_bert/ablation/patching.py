"""Patching: what the model computes of one text of a pair of twins is put into the other.

Twins are two texts of as many tokens that differ in one thing, for instance a term replaced. They
stand at the rows 2i and 2i + 1 of the list that batches are made of, and each is the other's
donor; or one of them alone is run, and the other only read (`second_batches`). Activation patching is
Vig et al. 2020 ("Investigating gender bias in language models using causal mediation analysis") and
Meng et al. 2022 ("Locating and editing factual associations in GPT").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch

from qt_bert.ablation.change import Change, Site
from qt_bert.ablation.reference import PlainModel, Seen
from qt_bert.ablation.untouched import Untouched
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.batches import Batch, to_batch
from qt_bert.encoder.forward import attend
from qt_bert.encoder.heads import Head, Shape, by_layer
from qt_bert.errors import ArgumentError
from qt_bert.pairs.batching import length_batches
from qt_bert.pairs.tokenise import EncodedPair

FAMILY = "patch"


@dataclass(frozen=True)
class Places:
    """Some tokens of each pair: `of` gives True at them [B, L]. Two are equal where their names are."""

    name: str
    of: Callable[[Batch], torch.Tensor] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Patch:
    """The twin's contexts (the input of W_O) in place of some heads' own, at `places` (None: all).

    Raises ArgumentError for no heads.
    """

    heads: tuple[Head, ...]
    places: Places | None = None
    kind: ClassVar[str] = "patch"
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.heads:
            raise ArgumentError("a patch of no heads changes nothing")
        object.__setattr__(self, "heads", tuple(sorted(set(self.heads))))

    def changes(self) -> Mapping[int, Change]:
        """The twin's contexts in each layer that has such heads."""
        return {
            layer: Change(contexts=TwinContexts(layer, heads, self.places))
            for layer, heads in by_layer(self.heads).items()
        }

    def install(self, model: PlainModel) -> None:
        """Write what the plain model's own run gave the twin, in a hook before W_O."""
        donors, twin = model.recorded(), twins(model.batch)
        chosen = None if self.places is None else self.places.of(model.batch)

        def put(layer: int, heads: tuple[int, ...], seen: Seen) -> None:
            given = donors.contexts(layer, int(twin[seen.row]))
            for head in heads:
                at = slice(None) if chosen is None else chosen[seen.row, : given.shape[1]]
                seen.context[head, at] = given[head, at]

        for layer, heads in by_layer(self.heads).items():
            model.edit(layer, partial(put, layer, heads))


def single_patches(shape: Shape) -> list[Variant]:
    """Every head's contexts alone: `patch:L3H7`, family `patch`."""
    return [Variant(f"patch:{head}", (Patch((head,)),), FAMILY) for head in shape.all_heads]


@dataclass(frozen=True)
class StatePatch:
    """The twin's residual stream at one place (0: embeddings, n: behind layer n − 1), at `places`."""

    place: int
    places: Places | None = None
    kind: ClassVar[str] = "patch"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def changes(self) -> Mapping[int, Change]:
        """Another output of the layer below the place."""
        return {self.place - 1: Change(output=TwinStates(self.place, self.places))}

    def install(self, model: PlainModel) -> None:
        """Write what the plain model's own run gave the twin, behind the module at the place."""
        donors, twin = model.recorded(), twins(model.batch)
        chosen = None if self.places is None else self.places.of(model.batch)

        def put(row: int, own: torch.Tensor) -> torch.Tensor:
            given = donors.states(self.place, int(twin[row]))
            if chosen is None:
                return given
            return torch.where(chosen[row, : len(own), None], given, own)

        model.map(self.place, put)


@dataclass(frozen=True)
class TwinContexts:
    """A `ContextEdit`: the contexts that the plain model gives the twin."""

    layer: int
    heads: tuple[int, ...]
    places: Places | None = None

    @property
    def mixes(self) -> bool:
        return self.places is not None  # elsewhere the heads attend as they do

    def contexts(self, site: Site) -> torch.Tensor:
        """[B, heads, rows, width]."""
        donor, rows = _donors(site.untouched)
        plain = donor.contexts(self.layer)[rows]
        given = plain[:, list(self.heads), : site.rows]
        if self.places is None:
            return given
        chosen = self.places.of(site.batch)[:, None, : site.rows, None]
        return torch.where(chosen, given, _attended(site, list(self.heads)))


@dataclass(frozen=True)
class TwinStates:
    """An `OutputEdit`: the residual stream of the twin."""

    place: int
    places: Places | None = None

    def outputs(self, hidden: torch.Tensor, untouched: Untouched) -> torch.Tensor:
        """[B, rows, size]."""
        rows = hidden.shape[1]
        donor, order = _donors(untouched)
        given = donor.states(self.place)[order][:, :rows]
        if self.places is None:
            return given
        return torch.where(self.places.of(untouched.batch)[:, :rows, None], given, hidden)


def _attended(site: Site, heads: list[int]) -> torch.Tensor:
    """The contexts of some heads as the site has them [B, heads, rows, width]."""
    query, key, value = (one[:, heads] for one in site.project())
    bias = site.bias
    if bias is not None:
        bias = (bias[:, heads] if bias.shape[1] > 1 else bias)[:, :, : site.rows]
    return attend(query, key, value, bias)


def _donors(untouched: Untouched) -> tuple[Untouched, torch.Tensor]:
    """Where the twins' values are, and at which rows [B]."""
    if untouched.batch.twin is None:
        return untouched, untouched.derived("twins", lambda: twins(untouched.batch))
    return untouched.of_twin, torch.arange(len(untouched.batch), device=untouched.embedded.device)


def twins(batch: Batch) -> torch.Tensor:
    """At which row of the batch each row's twin stands [B].

    Raises ArgumentError where a twin is not in the batch, or has another number of tokens.
    """
    place = {int(row): at for at, row in enumerate(batch.rows)}
    found = [place.get(int(row) ^ 1) for row in batch.rows]
    lengths = batch.real.sum(1).tolist()
    for at, twin in enumerate(found):
        if twin is None:
            raise ArgumentError(f"the text {batch.rows[at]} is in a batch without its twin")
        _check_lengths(int(batch.rows[at]), int(lengths[at]), int(lengths[twin]))
    return torch.tensor(found, device=batch.input_ids.device)


def twin_batches(
    encoded: Sequence[EncodedPair], budget: int, *, pad: int, device: torch.device | None = None
) -> Iterator[Batch]:
    """Batches of about `budget` tokens that hold every text beside its twin."""
    lengths = [len(one) for one in encoded[::2]]
    for pairs in length_batches(lengths, max(1, budget // 2)):
        rows = np.stack([2 * pairs, 2 * pairs + 1], 1).ravel()
        yield to_batch(rows, [encoded[row] for row in rows], pad=pad, device=device)


def second_batches(
    encoded: Sequence[EncodedPair], budget: int, *, pad: int, device: torch.device | None = None
) -> Iterator[Batch]:
    """Batches of the second text of each couple alone, whose patches come from the first.

    Raises ArgumentError where a text and its twin differ in length.
    """
    for pairs in length_batches([len(one) for one in encoded[::2]], budget):
        first, second = (
            to_batch(rows, [encoded[row] for row in rows], pad=pad, device=device)
            for rows in (2 * pairs, 2 * pairs + 1)
        )
        for row, one, other in zip(pairs, first.encoded, second.encoded, strict=True):
            _check_lengths(2 * int(row), len(one), len(other))
        yield replace(second, twin=first)


def _check_lengths(row: int, own: int, other: int) -> None:
    if own != other:
        raise ArgumentError(
            f"the text {row} has {own} tokens and its twin {other}; what is put in must be as long as "
            "what it replaces"
        )
