"""The small convolutional classifier: three layers over the map, of any length."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.maps import Maps

CHANNELS = 6
_WIDTH = 2
_GAMMA = 0.8
_TINY = 1e-6


def channels(maps: Maps) -> torch.Tensor:
    """What the network sees of each map [N, CHANNELS, L, L], all in 0…1 and 0 at padding.

    The weight's root; the shade as on a contact sheet (1 is what half of the rows reach somewhere);
    the root of what its column gets on average; same segment; offsets −2…2; real or padding.
    """
    weights, real, lengths = maps.weights, maps.real, maps.lengths
    cells = real[:, :, None] * real[:, None, :]
    peaks = weights.amax(-1).masked_fill(real == 0, torch.nan).nanmedian(-1).values
    shade = (weights / peaks.clamp_min(_TINY)[:, None, None]).clamp(max=1) ** _GAMMA
    column = (weights.sum(1) / lengths[:, None]).sqrt()[:, None, :].expand_as(weights)
    seen = (weights.sqrt(), shade, column, maps.own, maps.band(_WIDTH).expand_as(weights), cells)
    return torch.stack([one * cells for one in seen], dim=1)


class Network(nn.Module):
    """Three convolutions, their mean and largest value over the map, two linear layers.

    Padding is set to 0 after every layer, so that a map's logits do not depend on the maps beside it.
    """

    def __init__(self, width: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Conv2d(CHANNELS, width, 5, stride=2, padding=2)
        self.middle = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.top = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.hidden = nn.Linear(4 * width, 2 * width)
        self.out = nn.Linear(2 * width, len(KINDS))
        self.dropout = nn.Dropout(dropout)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Logits of the kinds [N, KINDS] from `channels` [N, CHANNELS, L, L]."""
        real = seen[:, -1:]
        half = real[..., ::2, ::2]
        quarter = half[..., ::2, ::2]
        values = F.relu(self.stem(seen)) * half
        values = F.relu(self.middle(values)) * quarter
        values = F.relu(self.top(values)) * quarter
        mean = values.sum((-2, -1)) / quarter.sum((-2, -1)).clamp_min(1)
        pooled = torch.cat([mean, values.amax((-2, -1))], dim=-1)
        return self.out(self.dropout(F.relu(self.hidden(self.dropout(pooled)))))

    @torch.inference_mode()
    def probabilities(self, maps: Maps) -> torch.Tensor:
        """The probability of each kind [N, KINDS]."""
        return self(channels(maps)).softmax(-1)
