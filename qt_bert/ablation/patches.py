"""Activation patching between the two runs of a pair, and path patching into one head."""

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
from qt_bert.ablation.reference import PlainModel
from qt_bert.data.tokenise import EncodedPair, length_batches
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch, to_batch
from qt_bert.models.devices import index

# Patching: a head's z in the run of one text is replaced by its z in the run of the text's donor.
#
# A text and its donor have equally many tokens and differ in one thing, such as a replaced term. They
# are the rows 2i and 2i + 1 of the encoded texts, each the other's donor (`donor_batches`); or only the
# second is patched, from the first (`recipient_batches`). Vig et al. 2020 ("Investigating gender bias in
# language models using causal mediation analysis"), Meng et al. 2022 ("Locating and editing factual
# associations in GPT").


FAMILY = "patch"


@dataclass(frozen=True)
class Patch(OfHeads):
    """The donor's z (the input of W_O) in some heads, at every token. Raises ArgumentError for none."""

    kind: ClassVar[str] = "patch"
    means: ClassVar[None] = None

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(z=DonorZ(layer, heads))

    def install(self, model: PlainModel) -> None:
        """Write the donor's z from a plain run, in a hook before W_O."""
        assert model.batch.donor is not None
        donor = model.plain(model.batch.donor).record()
        model.replace(self.heads, lambda head, plain: donor.z(head.layer, plain.row)[head.head])


def single_patches(shape: Shape) -> list[Variant]:
    """Every head alone: `patch:L3H7`, family `patch`."""
    return [Variant(f"patch:{head}", (Patch((head,)),), FAMILY) for head in shape.all_heads]


@dataclass(frozen=True)
class DonorZ:
    """The `ZEdit` of a patch: the donor's z in the plain model."""

    layer: int
    heads: tuple[int, ...]
    mixes: ClassVar[bool] = False

    def z(self, site: Site) -> torch.Tensor:
        """[B, heads, rows, width]."""
        z = site.clean.donor.z(self.layer)
        return site.batch.rows_of(z[:, index(self.heads, z.device)], site.rows, axes=2)


def donor_batches(encoded: Sequence[EncodedPair], budget: int, *, pad: int) -> Iterator[Batch]:
    """Batches of about `budget` tokens with every text, its donor the other of its couple. Raises
    ArgumentError for unlike lengths."""
    for pairs in length_batches([len(text) for text in encoded[::2]], max(1, budget // 2)):
        yield _with_donors(np.stack([2 * pairs, 2 * pairs + 1], 1).ravel(), encoded, pad)


def recipient_batches(encoded: Sequence[EncodedPair], budget: int, *, pad: int) -> Iterator[Batch]:
    """Each couple's second text, its donor the first. Raises ArgumentError for unlike lengths."""
    for pairs in length_batches([len(text) for text in encoded[::2]], budget):
        yield _with_donors(2 * pairs + 1, encoded, pad)


def _with_donors(rows: np.ndarray, encoded: Sequence[EncodedPair], pad: int) -> Batch:
    texts, donors = (to_batch(of, [encoded[row] for row in of], pad=pad) for of in (rows, rows ^ 1))
    for row, text, donor in zip(rows, texts.encoded, donors.encoded, strict=True):
        if len(text) != len(donor):
            raise ArgumentError(
                f"the text {row} has {len(text)} tokens and its donor {len(donor)}; both must be "
                "equally long"
            )
    return replace(texts, donor=donors)


# Path patching over z (Wang et al. 2022, "Interpretability in the wild"; Goldowsky-Dill et al. 2023,
# "Localizing model behavior with path patching"): up to the receiver's layer every other head keeps its
# clean z, while residual sums, LayerNorms and feed-forward blocks are recomputed; the resulting stream
# enters one projection of one head.


Entry = Literal["q", "k", "v", "qk"]
ENTRIES: tuple[Entry, ...] = get_args(Entry)


@dataclass(frozen=True)
class Detour:
    """The residual stream at `layer` when `sender`'s heads below it are left out.

    All other heads keep their clean z. Raises ArgumentError where a head of the sender is not below the
    layer.
    """

    sender: HeadMask
    layer: int

    def __post_init__(self) -> None:
        highest = self.sender.heads[-1]
        if highest.layer >= self.layer:
            raise ArgumentError(
                f"{highest} does not lie below layer {self.layer}, which is to read it"
            )

    def stream(self, clean: CleanCache) -> torch.Tensor:
        """The stream [B, L, size], computed once a batch."""
        return clean.derived(self, lambda: self._stream(clean))

    def _stream(self, clean: CleanCache) -> torch.Tensor:
        changes = self.sender.changes()
        hidden = clean.states(min(changes))
        for number in range(min(changes), self.layer):
            edit = changes[number].z if number in changes else None
            mixed = clean.mixed(number) if edit is None else _mixed(number, edit, hidden, clean)
            hidden = clean.encoder.layers[number].feed_forward(mixed, hidden)
        return hidden

    def record(self, model: PlainModel) -> list[torch.Tensor]:
        """The same in the Hugging Face model, by hooks: the stream [n, size] of each pair."""
        clean, detoured = model.plain(model.batch).record(), model.plain(model.batch)
        below = (Head(n, head) for n in range(self.layer) for head in range(clean.heads[n]))
        others = [head for head in below if head not in self.sender.heads]
        detoured.replace(others, lambda head, plain: clean.z(head.layer, plain.row)[head.head])
        self.sender.install(detoured)
        run = detoured.record()
        return [run.states(self.layer, row) for row in range(len(model.batch))]


def _mixed(number: int, edit: ZEdit, hidden: torch.Tensor, clean: CleanCache) -> torch.Tensor:
    """W_O over a layer's head outputs, edited, all others as in the clean run [B, L, size]."""
    layer, bias = clean.encoder.layers[number], clean.biases[number]
    project, z = partial(layer.project, hidden), clean.z(number).clone()
    site = Site(number, layer, clean.batch, hidden, project, bias, hidden.shape[1], clean)
    return layer.mix(edit_z(z, edit, site))


@dataclass(frozen=True)
class Path:
    """The clean model, but one head's projections `entry` (query, key, value, or query and key) read a
    detour.

    The variant is called `path:L3H7>L10H2.k`. Raises ArgumentError where the sender is not below, and for
    an unknown entry.
    """

    sender: HeadMask
    receiver: Head
    entry: Entry

    def __post_init__(self) -> None:
        if self.entry not in ENTRIES:
            raise ArgumentError(f"entry {self.entry!r}: choose from {', '.join(ENTRIES)}")
        self.detour  # noqa: B018 - refuses a sender that is not below

    @property
    def detour(self) -> Detour:
        """The stream that the projection reads."""
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
        """Other projections in the receiver's layer."""
        edit = DetourProjections(self.detour, self.receiver.head, self.entry)
        return {self.receiver.layer: LayerIntervention(projections=edit)}

    def install(self, model: PlainModel) -> None:
        """Hooks that write the receiver's rows of the projections of the detour."""
        stream = self.detour.record(model)
        for letter in self.entry:
            model.project(self.receiver.layer, "qkv".index(letter), self.receiver.head, stream)


@dataclass(frozen=True)
class DetourProjections:
    """The `ProjectionEdit` of a path: some projections of one head read a detour."""

    detour: Detour
    head: int
    entry: Entry

    def projections(self, site: Site) -> Projections:
        """The site's with the head's replaced. Raises ArgumentError for a shared key or value."""
        if self.entry != "q" and site.layer.groups < site.layer.heads:
            raise ArgumentError(
                "heads of this model share keys and values; a path can enter the query of one alone"
            )
        hidden = self.detour.stream(site.clean)
        whole, layer = site.rows == hidden.shape[1], site.layer
        detoured = layer.project(hidden) if whole else layer.project_row(hidden, site.batch.at)
        return tuple(  # type: ignore[return-value]
            _with_head(plain, other, self.head) if letter in self.entry else plain
            for letter, plain, other in zip("qkv", site.project(), detoured, strict=True)
        )


def _with_head(plain: torch.Tensor, other: torch.Tensor, head: int) -> torch.Tensor:
    mixed = plain.clone()
    mixed[:, head] = other[:, head]
    return mixed


def path_name(sender: str, receiver: Head, entry: Entry) -> str:
    """`path:L3H7>L10H2.k`, of a head or the name of a set."""
    return f"path:{sender}>{receiver}.{entry}"
