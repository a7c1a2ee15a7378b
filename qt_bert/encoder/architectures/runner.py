"""Logits of a batch of pairs, by a model that reads the texts apart."""

from __future__ import annotations

import torch

from qt_bert.encoder.architectures.model import PairModel
from qt_bert.encoder.architectures.texts import PaddedTexts, Side
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.forward import Encoder


class PairRunner:
    """Runs `model`; its encoder, where it has one, by the layer-by-layer forward.

    Built once per model: a change of the model's weights is not seen.
    """

    def __init__(self, model: PairModel) -> None:
        self.model = model
        self.pad = model.config.pad_token_id
        self._encoder = None if model.family is None else Encoder(model, model.family)

    def logits_of(self, batch: Batch) -> torch.Tensor:
        """Logits [B, labels]."""
        logits: torch.Tensor = self.model(PaddedTexts.of(batch, self._first_tokens, pad=self.pad))
        return logits

    def _first_tokens(self, side: Side) -> torch.Tensor:
        """The [CLS] vectors of a side's texts [B, hidden]; a text alone is of the first type."""
        assert self._encoder is not None
        mask = None if bool(side.real.all()) else side.real.long()
        return self._encoder.first(side.ids, torch.zeros_like(side.ids), mask)[:, 0]
