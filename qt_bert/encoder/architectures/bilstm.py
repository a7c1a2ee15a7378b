"""An LSTM in both directions over padded rows: what is behind a row's end changes nothing in it."""

from __future__ import annotations

import torch
from torch import nn


class BiLstm(nn.Module):
    """Rows [B, L, inputs] with their lengths [B] → [B, L, 2 × size], 0 at padding.

    Two LSTMs, one over each row turned round within its own length: padding stands behind the text
    for both, so that neither sees it. Packed sequences give the same, more slowly.
    """

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.left_to_right = nn.LSTM(inputs, size, batch_first=True)
        self.right_to_left = nn.LSTM(inputs, size, batch_first=True)

    def forward(self, rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        places = torch.arange(rows.shape[1], device=rows.device)
        real = places < lengths[:, None]
        turned = torch.where(real, lengths[:, None] - 1 - places, places)
        ahead = self.left_to_right(rows)[0]
        back = _taken(self.right_to_left(_taken(rows, turned))[0], turned)
        return torch.cat([ahead, back], -1) * real[..., None]


def _taken(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Of each row the vectors at `places` [B, L]."""
    return rows.gather(1, places[..., None].expand_as(rows))
