"""Maps of different lengths as one tensor, and which tokens of each belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.models.batches import CLS, PADDING, QUERY, TITLE, Batch
from qt_bert.probes.patterns.kinds import SEP
from qt_bert.probes.patterns.stored import DrawnMap


@dataclass(frozen=True, eq=False)
class Maps:
    """N maps, `weights` [N, L, L] in float32, rows looking; 0 at padding.

    `segment` [N, L] is QUERY at [CLS], the query and its separator, TITLE at all that follows, and
    PADDING elsewhere.
    """

    weights: torch.Tensor
    segment: torch.Tensor

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def real(self) -> torch.Tensor:
        """1 at real tokens [N, L]."""
        return (self.segment != PADDING).float()

    @property
    def lengths(self) -> torch.Tensor:
        """How many tokens each map has [N]."""
        return self.real.sum(-1)

    @property
    def own(self) -> torch.Tensor:
        """1 where both tokens are of one segment [N, L, L]; 0 at padding."""
        alike = self.segment[:, :, None] == self.segment[:, None, :]
        return alike.float() * self.real[:, :, None] * self.real[:, None, :]

    def band(self, width: int) -> torch.Tensor:
        """1 on offsets −width … width [L, L]."""
        places = torch.arange(self.weights.shape[-1], device=self.weights.device)
        return ((places[:, None] - places[None, :]).abs() <= width).float()

    @classmethod
    def of_drawn(cls, drawn: Sequence[DrawnMap]) -> Maps:
        """Stored maps, padded to the longest."""
        length = max(len(one.kinds) for one in drawn)
        weights = np.zeros((len(drawn), length, length), np.float32)
        segment = np.full((len(drawn), length), PADDING, np.int64)
        for row, one in enumerate(drawn):
            size = len(one.kinds)
            weights[row, :size, :size] = one.weights
            segment[row, :size] = _segments(one.kinds)
        return cls(torch.from_numpy(weights), torch.from_numpy(segment))

    @classmethod
    def of_batch(cls, weights: torch.Tensor, batch: Batch) -> Maps:
        """The maps [B, heads, L, L] of every head on a batch, pair by pair."""
        size, heads, length, _ = weights.shape
        segment = torch.where(batch.groups == CLS, QUERY, batch.groups)
        real = (segment != PADDING).float()
        clean = weights.float() * real[:, None, :, None] * real[:, None, None, :]
        wide = segment[:, None].expand(size, heads, length).reshape(-1, length)
        return cls(clean.reshape(-1, length, length), wide)


def _segments(kinds: np.ndarray) -> np.ndarray:
    """QUERY up to the first separator, TITLE behind it, from kinds of tokens [L]."""
    segment = np.full(len(kinds), TITLE, np.int64)
    segment[: int(np.flatnonzero(kinds == SEP)[0]) + 1] = QUERY
    return segment
