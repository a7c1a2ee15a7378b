"""Resample ablation: heads output what they do for another pair, at the same place.

Zeros lie off the manifold of head outputs; another pair's outputs lie on it (Chan et al. 2022, "Causal
scrubbing"). The donors are a few pairs of the reference set, recorded once; which of them a pair gets depends
on its tokens alone, so that neither batch nor order changes it.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from qt_bert.ablation.interventions import LayerIntervention, OfHeads, Site
from qt_bert.ablation.reference import PlainLayer, PlainModel
from qt_bert.heads import Head
from qt_bert.models.devices import index

DONORS = 16
"""Pairs that are recorded."""


@dataclass(frozen=True)
class Donors:
    """Each head's output for a few pairs; compared by `sha256`.

    `z` [donors, layers, heads, places, width], float32; past the end of a donor its last token's.
    `ids` are the donors' tokens.
    """

    sha256: str
    z: torch.Tensor = field(compare=False, repr=False)
    ids: tuple[tuple[int, ...], ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, z: torch.Tensor, ids: tuple[tuple[int, ...], ...]) -> Donors:
        """Donors with the SHA-256 of their outputs and tokens."""
        digest = hashlib.sha256(z.numpy().astype("<f4").tobytes())
        digest.update(repr(ids).encode())
        return cls(digest.hexdigest(), z, ids)

    def number(self, ids: list[int]) -> int:
        """The donor of a pair with these tokens: not the pair itself, where there are two."""
        number = zlib.crc32(repr(tuple(ids)).encode()) % len(self.ids)
        return (number + 1) % len(self.ids) if self.ids[number] == tuple(ids) else number

    def places(self, length: int) -> torch.Tensor:
        """The places of a donor for those of a pair; past its end its last one."""
        return torch.arange(length, device=self.z.device).clamp(max=self.z.shape[3] - 1)


@dataclass(frozen=True)
class Resample(OfHeads):
    """The donor's head output in these heads. Raises ArgumentError for no heads."""

    donors: Donors
    kind: ClassVar[str] = "resample"
    means: ClassVar[None] = None

    def change(self, layer: int, heads: tuple[int, ...]) -> LayerIntervention:
        return LayerIntervention(z=Resampled(layer, heads, self.donors))

    def install(self, model: PlainModel) -> None:
        """Write the donor's outputs in a hook before W_O."""

        def replaced(head: Head, plain: PlainLayer) -> torch.Tensor:
            donor = self.donors.number(model.batch.encoded[plain.row].input_ids)
            z = self.donors.z[donor, head.layer, head.head]
            return z[self.donors.places(plain.z.shape[1])].to(plain.z)

        model.replace(self.heads, replaced)


@dataclass(frozen=True)
class Resampled:
    """The `ZEdit` of resampled heads of one layer."""

    layer: int
    heads: tuple[int, ...]
    donors: Donors
    mixes: ClassVar[bool] = False

    def z(self, site: Site) -> torch.Tensor:
        """[B, heads, rows, width]."""
        z = site.clean.derived((self.donors, self.layer), lambda: self._of_batch(site))
        z = z[:, index(self.heads, z.device)]
        return site.batch.rows_of(z, site.rows, axes=2)

    def _of_batch(self, site: Site) -> torch.Tensor:
        """The layer's outputs of each pair's donor [B, heads, L, width]."""
        numbers = [self.donors.number(pair.input_ids) for pair in site.batch.encoded]
        z = self.donors.z[:, self.layer][numbers]
        return z[:, :, self.donors.places(site.batch.length)].to(site.hidden)
