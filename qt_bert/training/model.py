"""The module that the loop trains; a classifier with auxiliary outputs that are dropped at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.models.families import Family
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.packing import packed_hidden, read_states


class Trained(nn.Module):
    """A module around a classifier, the `model`.

    `loss` returns a number, or one for each of the `parts`, whose sum is minimised; the log lists them.
    The losses of some rows of a batch each add up to that of the batch.
    """

    model: Any
    parts: tuple[str, ...]

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        raise NotImplementedError


class TuningModel(Trained):
    """A cross-encoder (Hugging Face sequence classification) plus a linear output for each auxiliary source.

    The auxiliary outputs read the last hidden state of the first token. `losses` are those of the main
    output.
    """

    def __init__(
        self,
        model: Any,
        family: Family,
        auxiliaries: Mapping[str, list[str]],
        losses: Losses | None = None,
    ) -> None:
        super().__init__()
        self.losses = losses or Losses(LossWeights())
        several = self.losses.weights.parts != ("nll",)
        self.parts = (*self.losses.weights.parts, *auxiliaries) if several else ()
        self.model = model
        self.auxiliaries = nn.ModuleList(
            nn.Linear(model.config.hidden_size, len(labels)) for labels in auxiliaries.values()
        )
        self.family = family

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The losses and auxiliary cross-entropies, weighted by `share`: the `parts`, else their sum."""
        hidden = packed_hidden(self.model, self.family, batch)
        first = read_states(self.model, self.family, hidden, batch)
        features, logits = first[:, 0], self.family.head(self.model, first).float()
        parts = list(self.losses.of(logits, batch, batch.get("taught")).values())
        for number, output in enumerate(self.auxiliaries):
            chosen = (batch["auxiliary"][:, 0] == number) & (batch["share"] > 0)
            guesses = output(features).float()
            classes = batch["auxiliary"][:, 1].clamp(max=guesses.shape[1] - 1)
            losses = F.cross_entropy(guesses, classes, reduction="none")
            parts.append((losses * batch["share"] * chosen).sum())
        return torch.stack(parts) if self.parts else sum(parts[1:], parts[0])
