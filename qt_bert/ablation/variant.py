"""Variants: the ways in which a sweep runs the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from qt_bert.ablation.change import Change, MeanContexts
from qt_bert.ablation.reference import PlainModel
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError


class Part(Protocol):
    """One thing that a variant changes: a head mask, a cut between the texts, a patch."""

    @property
    def kind(self) -> str:
        """`zero`, `uniform`, `mean`, `block`, …: the column `mode` of `variants.csv`."""

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads it concerns, sorted."""

    @property
    def means(self) -> MeanContexts | None:
        """The mean contexts that it puts in, where it does."""

    def changes(self) -> Mapping[int, Change]:
        """Layer → what differs there."""

    def install(self, model: PlainModel) -> None:
        """Do the same to the Hugging Face model, slowly and plainly: what the guards compare with."""


@dataclass(frozen=True)
class Variant:
    """One way to run the model. Without parts it is the plain model, called `none`.

    `family` groups the variants that are tested together (`single`, `layers`, …); `draw` and
    `seed` tell random draws apart.
    """

    name: str
    parts: tuple[Part, ...] = ()
    family: str = ""
    draw: int | None = None
    seed: int | None = None

    @cached_property
    def changes(self) -> Mapping[int, Change]:
        """Layer → what differs there, over all parts.

        Raises ArgumentError where two parts change the same thing of one layer.
        """
        merged: dict[int, Change] = {}
        for part in self.parts:
            for layer, change in part.changes().items():
                merged[layer] = _both(merged.get(layer, Change()), change, self.name, layer)
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


def _both(one: Change, other: Change, name: str, layer: int) -> Change:
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
