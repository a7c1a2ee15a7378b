"""Whole layers left out: a block hands its input on, without attention, feed-forward or LayerNorm.

What is left is the model with these layers deleted, which is how Fan et al. 2020 ("Reducing
Transformer Depth on Demand with Structured Dropout") and Sajjad et al. 2023 ("On the effect of
dropping layers of pre-trained transformer models") make a model shallower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qt_bert.ablation.change import Change
from qt_bert.ablation.reference import PlainModel
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.heads import Head, Shape
from qt_bert.errors import ArgumentError

SKIPPED = Change(skipped=True)


@dataclass(frozen=True)
class BlocksOut:
    """Layers left out whole, by number.

    It concerns no head by name, though those of its layers are gone: in `variants.csv` the name of
    the variant says which layers (`B3+B5`), and `heads` is for heads left out besides, in other
    layers. Raises ArgumentError for no layers, or numbers below 0.
    """

    layers: tuple[int, ...]
    kind: ClassVar[str] = "skip"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.layers or min(self.layers) < 0:
            raise ArgumentError(f"blocks {self.layers} cannot be left out: name layers from 0")
        object.__setattr__(self, "layers", tuple(sorted(set(self.layers))))

    def changes(self) -> Mapping[int, Change]:
        """The layers that are skipped."""
        return dict.fromkeys(self.layers, SKIPPED)

    def install(self, model: PlainModel) -> None:
        """Hooks that hand on each layer's input."""
        for layer in self.layers:
            model.skip(layer)


def blocks(shape: Shape) -> list[Variant]:
    """Every layer alone, left out whole: `B3`, family `blocks`.

    Raises ArgumentError for a model of one layer.
    """
    if shape.layers < 2:
        raise ArgumentError("the only layer of a model cannot be left out")
    return [without_blocks((layer,)) for layer in range(shape.layers)]


def without_blocks(layers: tuple[int, ...]) -> Variant:
    """Some layers left out whole, together: `B3+B5`, family `blocks`."""
    part = BlocksOut(layers)
    return Variant(block_names(part.layers), (part,), "blocks")


def block_names(layers: tuple[int, ...]) -> str:
    """`B3+B5`: how a variant without these blocks is called."""
    return "+".join(f"B{layer}" for layer in sorted(layers))
