"""Path patching: what reaches one reader from heads below directly, with every other head held still.

Wang et al. 2022 ("Interpretability in the wild", path patching) and Goldowsky-Dill et al. 2023
("Localizing model behavior with path patching"), over contexts: up to the receiver's layer every
other head gives what it gives the unmasked model, while residual sums, LayerNorms and feed-forward
blocks are computed anew; what arrives enters one projection of one head, and nothing else there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, get_args

import torch

from qt_bert.ablation.change import Change, Projections, Site
from qt_bert.ablation.masks import HeadMask, MeanContexts
from qt_bert.ablation.reference import PlainModel, Seen
from qt_bert.ablation.untouched import Untouched
from qt_bert.encoder.forward import Layer, attend
from qt_bert.encoder.heads import Head, by_layer
from qt_bert.errors import ArgumentError

Entry = Literal["q", "k", "v", "qk"]
ENTRIES: tuple[Entry, ...] = get_args(Entry)
Hold = Literal["contexts", "contexts and feed-forward", "nothing"]
HOLDS: tuple[Hold, ...] = get_args(Hold)


@dataclass(frozen=True)
class Detour:
    """The residual stream that reaches `layer` when `sender`'s heads are left out below it.

    `hold` says what keeps its unmasked value on the way: the contexts of all other heads, these
    and what the feed-forward blocks add, or nothing. Raises ArgumentError where a head of the sender does
    not lie below the layer, and for an unknown hold.
    """

    sender: HeadMask
    layer: int
    hold: Hold = "contexts"

    def __post_init__(self) -> None:
        highest = self.sender.heads[-1]
        if highest.layer >= self.layer:
            raise ArgumentError(
                f"{highest} does not lie below layer {self.layer}, which is to read it"
            )
        if self.hold not in HOLDS:
            raise ArgumentError(f"hold {self.hold!r}: choose from {', '.join(HOLDS)}")

    def arriving(self, untouched: Untouched) -> torch.Tensor:
        """The stream [B, L, size], computed once a batch."""
        return untouched.derived(self, lambda: self._arriving(untouched))

    def _arriving(self, untouched: Untouched) -> torch.Tensor:
        changes = self.sender.changes()
        hidden = untouched.states(min(changes))
        for number in range(min(changes), self.layer):
            layer = untouched.encoder.layers[number]
            mixed = self._mixed(number, layer, changes.get(number), hidden, untouched)
            held = self.hold == "contexts and feed-forward"
            hidden = layer.feed_forward(mixed, hidden, untouched.inner(number) if held else None)
        return hidden

    def _mixed(
        self,
        number: int,
        layer: Layer,
        change: Change | None,
        hidden: torch.Tensor,
        untouched: Untouched,
    ) -> torch.Tensor:
        if change is None and self.hold != "nothing":
            return untouched.mixed(number)
        project = partial(layer.project, hidden)
        if self.hold == "nothing":
            contexts = attend(*project(), untouched.biases[number])
        else:
            contexts = untouched.contexts(number).clone()
        if change is not None and change.contexts is not None:
            site = Site(
                number,
                layer,
                untouched.batch,
                hidden,
                project,
                untouched.biases[number],
                hidden.shape[1],
                untouched,
            )
            new = change.contexts.contexts(site)
            contexts[:, list(change.contexts.heads)] = 0 if new is None else new  # type: ignore[assignment]
        return layer.mix(contexts)

    def record(self, model: PlainModel) -> list[torch.Tensor]:
        """The same of the plain model, by hooks: for each pair the stream [n, size]."""
        plain, gone = model.recorded(), by_layer(self.sender.heads)

        def hold(layer: int, seen: Seen) -> None:
            kept = plain.contexts(layer, seen.row)
            for head in range(len(seen.context)):
                if head not in gone.get(layer, ()):
                    seen.context[head] = kept[head]

        model.begin()
        self.sender.install(model)
        if self.hold != "nothing":
            for layer in range(self.layer):
                model.edit(layer, partial(hold, layer))
        inner = range(self.layer) if self.hold == "contexts and feed-forward" else ()
        run = model.record(held_inner={layer: plain.inner[layer] for layer in inner})
        model.begin()
        return [run.states(self.layer, row) for row in range(len(model.batch))]


@dataclass(frozen=True)
class Path:
    """The unmasked model, but for one projection of one head, which reads a detour.

    `entry` is what reads it: the query, key or value, or query and key. The variant is called
    `path:L3H7>L10H2.k`. Raises ArgumentError where the sender does not lie below, and for an unknown
    entry.
    """

    sender: HeadMask
    receiver: Head
    entry: Entry
    hold: Hold = "contexts"

    def __post_init__(self) -> None:
        if self.entry not in ENTRIES:
            raise ArgumentError(f"entry {self.entry!r}: choose from {', '.join(ENTRIES)}")
        self.detour  # noqa: B018 - refuses a sender that does not lie below

    @property
    def detour(self) -> Detour:
        """What the projection reads."""
        return Detour(self.sender, self.receiver.layer, self.hold)

    @property
    def kind(self) -> str:
        return f"path.{self.entry}"

    @property
    def heads(self) -> tuple[Head, ...]:
        """Sender and receiver."""
        return tuple(sorted({*self.sender.heads, self.receiver}))

    @property
    def means(self) -> MeanContexts | None:
        """The sender's."""
        return self.sender.means

    def changes(self) -> Mapping[int, Change]:
        """Another projection in the receiver's layer; below it, all is as it was."""
        edit = Arriving(self.detour, self.receiver.head, self.entry)
        return {self.receiver.layer: Change(projections=edit)}

    def install(self, model: PlainModel) -> None:
        """Hooks on the projections, which write the receiver's rows of what they make of the detour."""
        arriving = self.detour.record(model)
        for letter in self.entry:
            model.project(self.receiver.layer, _NAMES[letter], self.receiver.head, arriving)


_NAMES = {"q": "query", "k": "key", "v": "value"}


@dataclass(frozen=True)
class Arriving:
    """A `ProjectionEdit`: some projections of one head read a detour."""

    detour: Detour
    head: int
    entry: Entry

    def projections(self, site: Site) -> Projections:
        """The layer's own, but for the head's entries."""
        own = site.project()
        hidden = self.detour.arriving(site.untouched)
        project = site.layer.project if site.rows == hidden.shape[1] else site.layer.project_first
        others = project(hidden)
        return tuple(  # type: ignore[return-value]
            _with_head(one, other, self.head) if letter in self.entry else one
            for letter, one, other in zip("qkv", own, others, strict=True)
        )


def _with_head(own: torch.Tensor, other: torch.Tensor, head: int) -> torch.Tensor:
    found = own.clone()
    found[:, head] = other[:, head]
    return found


@dataclass(frozen=True)
class Inflow:
    """A detour that all of a layer reads, its residual sum included: every way there is from the sender.

    With nothing held it is the sender left out.
    """

    detour: Detour
    kind: ClassVar[str] = "path"

    @property
    def heads(self) -> tuple[Head, ...]:
        """The sender's."""
        return self.detour.sender.heads

    @property
    def means(self) -> MeanContexts | None:
        """The sender's."""
        return self.detour.sender.means

    def changes(self) -> Mapping[int, Change]:
        """Another output of the layer below."""
        return {self.detour.layer - 1: Change(output=self)}

    def outputs(self, hidden: torch.Tensor, untouched: Untouched) -> torch.Tensor:
        """The detour's first rows, as many as `hidden` has."""
        return self.detour.arriving(untouched)[:, : hidden.shape[1]]

    def install(self, model: PlainModel) -> None:
        """A hook that hands on the recorded stream."""
        arriving = self.detour.record(model)
        model.map(self.detour.layer, lambda row, own: arriving[row])


def path_name(sender: str, receiver: Head, entry: Entry) -> str:
    """`path:L3H7>L10H2.k`, of a head or the name of a set."""
    return f"path:{sender}>{receiver}.{entry}"
