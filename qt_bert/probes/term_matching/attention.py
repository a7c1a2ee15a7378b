"""Sums of attention over the cells of a pair: the reduction of the probe."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from qt_bert.ablation.reduction import View
from qt_bert.encoder.batches import Batch
from qt_bert.probes.term_matching.cells import CHARACTERS, KINDS, Cells, channel_of

CHANNELS = len(KINDS) * 4
SINK_FREE = slice(channel_of(CHARACTERS, 0, 0), channel_of(CHARACTERS, 1, 1) + 1)
"""The channels that are summed a second time, without what goes to [CLS], [SEP] and itself."""


class CellSums:
    """Computes the sums of each channel [B, heads, CHANNELS + 4]; `cells` by row of the stream.

    The last four are those of `SINK_FREE`, of attention between the tokens of the two texts alone:
    a row's weight on the separators, the first token and itself is taken off, and the rest made 1.
    """

    def __init__(self, cells: Sequence[Cells]) -> None:
        self._cells = cells
        self._batch: Batch | None = None

    def __call__(self, view: View) -> torch.Tensor:
        if self._batch is not view.batch:
            self._batch = view.batch
            self._masks = self._masks_of(view.batch).to(view.values.device)
            self._texts = _texts(view.batch).to(view.values.device)
        weights = view.values.float()
        sums = _over_cells(weights, self._masks)
        free = _over_cells(sink_free(weights, self._texts), self._masks[:, SINK_FREE])
        return torch.cat([sums, free], dim=-1)

    def _masks_of(self, batch: Batch) -> torch.Tensor:
        """1 in the cells of each channel [B, CHANNELS, L, L]."""
        length = batch.input_ids.shape[1]
        masks = torch.zeros(len(batch), CHANNELS, length, length)
        for place, row in enumerate(batch.rows):
            cells = self._cells[row]
            at = (cells.channel, cells.row, cells.column)
            masks[place][tuple(torch.from_numpy(one).long() for one in at)] = 1
        return masks


def sink_free(weights: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    """Attention [B, heads, L, L] between the tokens of `texts` [B, L], without a token's own."""
    length = weights.shape[-1]
    apart = ~torch.eye(length, dtype=torch.bool, device=weights.device)
    seen = weights * (texts[:, None, :] & apart)[:, None]
    return seen / seen.sum(-1, keepdim=True).clamp_min(torch.finfo(seen.dtype).tiny)


def _over_cells(weights: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """[B, heads, L, L] and [B, channels, L, L] → [B, heads, channels]."""
    return weights.flatten(2) @ masks.flatten(2).transpose(1, 2)


def _texts(batch: Batch) -> torch.Tensor:
    """True at the tokens of query and title [B, L]."""
    found = torch.zeros(batch.input_ids.shape, dtype=torch.bool)
    for place, encoded in enumerate(batch.encoded):
        found[place, : len(encoded)] = torch.tensor(encoded.side) >= 0
    return found
