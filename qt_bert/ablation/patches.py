"""Activation patching from the other run of a pair, and path patching into one reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, get_args

import numpy as np
import torch

from qt_bert.ablation.interventions import (
    CleanCache,
    LayerIntervention,
    MeanZ,
    OfHeads,
    Projections,
    Site,
    Variant,
    ZEdit,
    edit_z,
)
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.reference import PlainLayer, PlainModel
from qt_bert.data.tokenise import EncodedPair, length_batches
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape, by_layer
from qt_bert.models.batches import Batch, to_batch
from qt_bert.models.devices import index

# Patching: a head's z in the run of one text is replaced by its z in the run of the text's donor.
#
# A text and its donor have as many tokens and differ in one thing, for instance a term replaced.
# They stand at the rows 2i and 2i + 1 of the list that batches are made of, each the other's donor
# (`donor_batches`); or the second alone is patched, and the first only read (`recipient_batches`).
# Activation patching is Vig et al. 2020 ("Investigating gender bias in language models using causal
# mediation analysis") and Meng et al. 2022 ("Locating and editing factual associations in GPT").


FAMILY = "patch"


@dataclass(frozen=True)
class Patch(OfHeads):
    """The donor's z (the input of W_O) in place of some heads' own, at every token.

    Raises ArgumentError for no heads.
    """

    kind: ClassVar[str] = "patch"
    means: ClassVar[None] = None

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(z=DonorZ(layer, heads))

    def install(self, model: PlainModel) -> None:
        """Write what the plain model's own run gave the donor, in a hook before W_O."""
        recorded, rows = model.record(), donor_rows(model.batch)

        def put(layer: int, heads: tuple[int, ...], seen: PlainLayer) -> None:
            given = recorded.z(layer, int(rows[seen.row]))
            for head in heads:
                seen.z[head] = given[head]

        for layer, heads in by_layer(self.heads).items():
            model.edit(layer, partial(put, layer, heads))


def single_patches(shape: Shape) -> list[Variant]:
    """Every head alone: `patch:L3H7`, family `patch`."""
    return [Variant(f"patch:{head}", (Patch((head,)),), FAMILY) for head in shape.all_heads]


@dataclass(frozen=True)
class DonorZ:
    """A `ZEdit`: the z that the plain model gives the donor."""

    layer: int
    heads: tuple[int, ...]
    mixes: ClassVar[bool] = False

    def z(self, site: Site) -> torch.Tensor:
        """[B, heads, rows, width]."""
        donor, rows = _donors(site.clean)
        z = donor.z(self.layer)[rows]
        return site.batch.rows_of(z[:, index(self.heads, z.device)], site.rows, axes=2)


def _donors(clean: CleanCache) -> tuple[CleanCache, torch.Tensor]:
    """Where the donors' values are, and at which rows [B]."""
    if clean.batch.donor is None:
        return clean, clean.derived("donors", lambda: donor_rows(clean.batch))
    return clean.of_donor, torch.arange(len(clean.batch), device=clean.embedded.device)


def donor_rows(batch: Batch) -> torch.Tensor:
    """At which row of the batch each row's donor stands [B].

    Raises ArgumentError where a donor is not in the batch, or has another number of tokens.
    """
    place = {int(row): at for at, row in enumerate(batch.rows)}
    found = [place.get(int(row) ^ 1) for row in batch.rows]
    lengths = [len(one) for one in batch.encoded]
    for at, donor in enumerate(found):
        if donor is None:
            raise ArgumentError(f"the text {batch.rows[at]} is in a batch without its donor")
        _check_lengths(int(batch.rows[at]), lengths[at], lengths[donor])
    return index(tuple(found), batch.groups.device)


def donor_batches(encoded: Sequence[EncodedPair], budget: int, *, pad: int) -> Iterator[Batch]:
    """Batches of about `budget` tokens that hold every text and its donor."""
    lengths = [len(one) for one in encoded[::2]]
    for pairs in length_batches(lengths, max(1, budget // 2)):
        rows = np.stack([2 * pairs, 2 * pairs + 1], 1).ravel()
        yield to_batch(rows, [encoded[row] for row in rows], pad=pad)


def recipient_batches(encoded: Sequence[EncodedPair], budget: int, *, pad: int) -> Iterator[Batch]:
    """Batches of the second text of each couple alone, whose donor is the first.

    Raises ArgumentError where a text and its donor differ in length.
    """
    for pairs in length_batches([len(one) for one in encoded[::2]], budget):
        first, second = (
            to_batch(rows, [encoded[row] for row in rows], pad=pad)
            for rows in (2 * pairs, 2 * pairs + 1)
        )
        for row, one, other in zip(pairs, first.encoded, second.encoded, strict=True):
            _check_lengths(2 * int(row), len(one), len(other))
        yield replace(second, donor=first)


def _check_lengths(row: int, own: int, other: int) -> None:
    if own != other:
        raise ArgumentError(
            f"the text {row} has {own} tokens and its donor {other}; what is put in must be as long as "
            "what it replaces"
        )


# Path patching: what reaches one reader from heads below directly, with every other head held
# still.
#
# Wang et al. 2022 ("Interpretability in the wild", path patching) and Goldowsky-Dill et al. 2023
# ("Localizing model behavior with path patching"), over z: up to the receiver's layer every other
# head gives what it gives the clean model, while residual sums, LayerNorms and feed-forward blocks
# are computed anew; what arrives enters one projection of one head, and nothing else there.


Entry = Literal["q", "k", "v", "qk"]
ENTRIES: tuple[Entry, ...] = get_args(Entry)


@dataclass(frozen=True)
class Detour:
    """The residual stream that reaches `layer` when `sender`'s heads are left out below it.

    z of all other heads keeps its clean value on the way. Raises ArgumentError where a head of the
    sender does not lie below the layer.
    """

    sender: HeadMask
    layer: int

    def __post_init__(self) -> None:
        highest = self.sender.heads[-1]
        if highest.layer >= self.layer:
            raise ArgumentError(
                f"{highest} does not lie below layer {self.layer}, which is to read it"
            )

    def arriving(self, clean: CleanCache) -> torch.Tensor:
        """The stream [B, L, size], computed once a batch."""
        return clean.derived(self, lambda: self._arriving(clean))

    def _arriving(self, clean: CleanCache) -> torch.Tensor:
        changes = self.sender.changes()
        hidden = clean.states(min(changes))
        for number in range(min(changes), self.layer):
            edit = changes[number].z if number in changes else None
            mixed = clean.mixed(number) if edit is None else _mixed(number, edit, hidden, clean)
            hidden = clean.encoder.layers[number].feed_forward(mixed, hidden)
        return hidden

    def record(self, model: PlainModel) -> list[torch.Tensor]:
        """The same of the plain model, by hooks: for each pair the stream [n, size]."""
        plain, gone = model.record(), by_layer(self.sender.heads)

        def hold(layer: int, seen: PlainLayer) -> None:
            kept = plain.z(layer, seen.row)
            for head in range(len(seen.z)):
                if head not in gone.get(layer, ()):
                    seen.z[head] = kept[head]

        model.begin()
        self.sender.install(model)
        for layer in range(self.layer):
            model.edit(layer, partial(hold, layer))
        run = model.record()
        model.begin()
        return [run.states(self.layer, row) for row in range(len(model.batch))]


def _mixed(number: int, edit: ZEdit, hidden: torch.Tensor, clean: CleanCache) -> torch.Tensor:
    """What a layer's heads give under an edit, all others as in the clean model [B, L, size]."""
    layer, bias = clean.encoder.layers[number], clean.biases[number]
    project, z = partial(layer.project, hidden), clean.z(number).clone()
    site = Site(number, layer, clean.batch, hidden, project, bias, hidden.shape[1], clean)
    return layer.mix(edit_z(z, edit, site))


@dataclass(frozen=True)
class Path:
    """The clean model, but for one projection of one head, which reads a detour.

    `entry` is what reads it: the query, key or value, or query and key. The variant is called
    `path:L3H7>L10H2.k`. Raises ArgumentError where the sender does not lie below, and for an
    unknown entry.
    """

    sender: HeadMask
    receiver: Head
    entry: Entry

    def __post_init__(self) -> None:
        if self.entry not in ENTRIES:
            raise ArgumentError(f"entry {self.entry!r}: choose from {', '.join(ENTRIES)}")
        self.detour  # noqa: B018 - refuses a sender that does not lie below

    @property
    def detour(self) -> Detour:
        """What the projection reads."""
        return Detour(self.sender, self.receiver.layer)

    @property
    def kind(self) -> str:
        return f"path.{self.entry}"

    @property
    def heads(self) -> tuple[Head, ...]:
        """Sender and receiver."""
        return tuple(sorted({*self.sender.heads, self.receiver}))

    @property
    def means(self) -> MeanZ | None:
        """The sender's."""
        return self.sender.means

    def changes(self) -> Mapping[int, LayerIntervention]:
        """Another projection in the receiver's layer; below it, all is as it was."""
        edit = Arriving(self.detour, self.receiver.head, self.entry)
        return {self.receiver.layer: LayerIntervention(projections=edit)}

    def install(self, model: PlainModel) -> None:
        """Hooks on the projections, which write the receiver's rows of what they make of the detour."""
        arriving = self.detour.record(model)
        for letter in self.entry:
            model.project(self.receiver.layer, _NAMES[letter], self.receiver.head, arriving)


_NAMES = {"q": 0, "k": 1, "v": 2}


@dataclass(frozen=True)
class Arriving:
    """A `ProjectionEdit`: some projections of one head read a detour."""

    detour: Detour
    head: int
    entry: Entry

    def projections(self, site: Site) -> Projections:
        """The layer's own, but for the head's entries.

        Raises ArgumentError for the key or value of a head that shares it with others.
        """
        if self.entry != "q" and site.layer.groups < site.layer.heads:
            raise ArgumentError(
                "heads of this model share keys and values; a path can enter the query of one alone"
            )
        own = site.project()
        hidden = self.detour.arriving(site.clean)
        whole = site.rows == hidden.shape[1]
        layer, place = site.layer, site.batch.at
        others = layer.project(hidden) if whole else layer.project_row(hidden, place)
        return tuple(  # type: ignore[return-value]
            _with_head(one, other, self.head) if letter in self.entry else one
            for letter, one, other in zip("qkv", own, others, strict=True)
        )


def _with_head(own: torch.Tensor, other: torch.Tensor, head: int) -> torch.Tensor:
    found = own.clone()
    found[:, head] = other[:, head]
    return found


def path_name(sender: str, receiver: Head, entry: Entry) -> str:
    """`path:L3H7>L10H2.k`, of a head or the name of a set."""
    return f"path:{sender}>{receiver}.{entry}"
