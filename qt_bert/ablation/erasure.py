"""A property erased where the model would read it: an affine map of one layer's output.

Everything above runs on freely, on what the map leaves. With the map of LEACE (Belrose et al. 2023,
"LEACE: Perfect linear concept erasure in closed form") this is amnesic probing (Elazar et al. 2021):
what the model loses says whether it used the property.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from qt_bert.ablation.change import Change
from qt_bert.ablation.reference import PlainModel
from qt_bert.ablation.untouched import Untouched
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError


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

    def outputs(self, hidden: torch.Tensor, untouched: Untouched | None = None) -> torch.Tensor:
        """The map of every vector [..., size]; bfloat16 goes through float32."""
        wide = hidden.float() if hidden.dtype == torch.bfloat16 else hidden
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

    def changes(self) -> Mapping[int, Change]:
        """Another output of the layer below the place; `change.EMBEDDINGS` for r0."""
        return {self.place - 1: Change(output=self.map)}

    def install(self, model: PlainModel) -> None:
        """The same by one whole matrix, token by token, in a hook behind the layer."""
        gone = self.map.left.double() @ self.map.right.double()

        def mapped(row: int, vectors: torch.Tensor) -> torch.Tensor:
            centred = vectors.double() - self.map.centre.double()
            return (vectors.double() - centred @ gone.T).to(vectors.dtype)

        model.map(self.place, mapped)
