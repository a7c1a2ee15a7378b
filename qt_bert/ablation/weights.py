"""Concept erasure by an affine map of one layer's output.

With the map of LEACE (Belrose et al. 2023, "LEACE: Perfect linear concept erasure in closed form") this is amnesic
probing (Elazar et al. 2021).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from qt_bert.ablation.interventions import CleanCache, LayerIntervention
from qt_bert.ablation.reference import PlainModel
from qt_bert.heads import Head


@dataclass(frozen=True, eq=False, repr=False)
class AffineMap:
    """x ↦ x − left·right·(x − centre).

    `left` [size, rank], `right` [rank, size], `centre` [size]; rank 0 changes nothing. Compared by
    identity.
    """

    left: torch.Tensor
    right: torch.Tensor
    centre: torch.Tensor

    def __repr__(self) -> str:
        """With the SHA-256 of its numbers, which the key of a sweep holds."""
        parts = (self.left, self.right, self.centre)
        numbers = b"".join(part.double().cpu().numpy().tobytes() for part in parts)
        return f"AffineMap({hashlib.sha256(numbers).hexdigest()})"

    @property
    def rank(self) -> int:
        """The number of directions it removes."""
        return int(self.right.shape[0])

    def outputs(self, hidden: torch.Tensor, clean: CleanCache | None = None) -> torch.Tensor:
        """The map of every vector [..., size]; half precision goes through float32."""
        wide = hidden.float() if hidden.dtype.itemsize == 2 else hidden
        left, right, centre = (t.to(wide) for t in (self.left, self.right, self.centre))
        return (wide - ((wide - centre) @ right.T) @ left.T).to(hidden.dtype)


@dataclass(frozen=True)
class Erasure:
    """An affine map of the residual stream at one place, at every token but padding.

    `place` 0 (r0) is after the embeddings, n (rn) after layer n − 1.
    """

    place: int
    map: AffineMap
    kind: ClassVar[str] = "erase"
    heads: ClassVar[tuple[Head, ...]] = ()
    means: ClassVar[None] = None

    def changes(self) -> Mapping[int, LayerIntervention]:
        """Another output of the layer below the place; `EMBEDDINGS` for r0."""
        return {self.place - 1: LayerIntervention(output=self.map)}

    def install(self, model: PlainModel) -> None:
        """The same with one matrix, in a hook after the layer."""
        gone = self.map.left.double() @ self.map.right.double()

        def mapped(row: int, vectors: torch.Tensor) -> torch.Tensor:
            centred = vectors.double() - self.map.centre.double()
            return (vectors.double() - centred @ gone.T).to(vectors.dtype)

        model.map(self.place, mapped)
