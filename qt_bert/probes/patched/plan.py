"""The variants of a run: which patches, and beside them which heads left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from qt_bert.ablation.families import layers, single
from qt_bert.ablation.patching import FAMILY, Patch, StatePatch, single_patches
from qt_bert.ablation.variant import Part, Variant
from qt_bert.encoder.heads import Head, Shape
from qt_bert.probes.common.controls import Contest, contest, zeroed
from qt_bert.probes.patched.classes import TokenClass, places_of

TARGET = "patch:matching"


def patched(heads: Iterable[Head]) -> Part:
    """The twin's contexts in place of these heads' own."""
    return Patch(tuple(heads))


def layer_patches(shape: Shape) -> list[Variant]:
    """All contexts of a layer together: `patch:L3`."""
    return _renamed(layers(shape, patched))


def left_out(shape: Shape) -> list[Variant]:
    """Every head left out of both twins: `L3H7`."""
    return single(shape, zeroed)


def class_patches(shape: Shape) -> list[list[Variant]]:
    """A layer's contexts at the tokens of each class: `patch:L3@slot` [layers][classes]."""
    return [
        [
            Variant(
                f"{whole.name}@{kind.name.lower()}", (Patch(whole.heads, places_of(kind)),), FAMILY
            )
            for kind in TokenClass
        ]
        for whole in layer_patches(shape)
    ]


def state_patches(shape: Shape) -> list[list[Variant]]:
    """The residual stream at the tokens of each class: `patch:r3@slot` [places][classes].

    r0 is behind the embeddings, rn behind layer n − 1.
    """
    return [
        [
            Variant(
                f"patch:r{place}@{kind.name.lower()}", (StatePatch(place, places_of(kind)),), FAMILY
            )
            for kind in TokenClass
        ]
        for place in range(shape.layers + 1)
    ]


def set_contest(heads: Sequence[Head], shape: Shape, draws: int, seed: int) -> Contest:
    """The set's contexts together, and those of layer-matched sets."""
    return contest(TARGET, heads, shape, matched=draws, free=0, seed=seed, mask=patched)


@dataclass(frozen=True)
class Plan:
    """What is run on validation: the set beside its controls, and `each` one by one.

    `classes`, `states` and `left_out` are run under --full alone.
    """

    singles: list[Variant]
    layers: list[Variant]
    contest: Contest
    classes: list[list[Variant]]
    states: list[list[Variant]]
    left_out: list[Variant]

    @classmethod
    def of(cls, shape: Shape, asked: Contest, *, full: bool) -> Plan:
        """By profile."""
        return cls(
            single_patches(shape),
            layer_patches(shape),
            asked,
            class_patches(shape) if full else [],
            state_patches(shape) if full else [],
            left_out(shape) if full else [],
        )

    @property
    def each(self) -> list[Variant]:
        """Heads and layers one by one, and what --full adds."""
        at_classes = [one for rows in (*self.classes, *self.states) for one in rows]
        return [*self.singles, *self.layers, *at_classes, *self.left_out]

    @property
    def variants(self) -> list[Variant]:
        """All of them."""
        return [*self.contest.variants, *self.each]


def _renamed(variants: Iterable[Variant]) -> list[Variant]:
    return [replace(one, name=f"patch:{one.name}", family=FAMILY) for one in variants]
