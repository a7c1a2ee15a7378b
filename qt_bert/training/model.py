"""The model as it is tuned: a classifier, and auxiliary outputs it later drops."""

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
    """What the loop trains, where it is: a module around a classifier, the `model`.

    `loss` gives one number, or one for each of the `parts`, whose sum is minimised; the log lists the
    parts. The losses of the parts of a batch, split by rows, add up to that of the batch.
    """

    model: Any
    parts: tuple[str, ...]

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        raise NotImplementedError


class TuningModel(Trained):
    """A cross-encoder (Hugging Face sequence classification) plus one linear output per auxiliary source.

    The outputs read its features, the last hidden state of the first token. `labels` of the main
    output are grades 1 … 5, or ordered levels. `losses` are those of the main output.
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
        """The losses weighted by `share` and the auxiliary cross-entropies: the `parts`, else their sum."""
        hidden = packed_hidden(self.model, self.family, batch)
        first = read_states(self.model, self.family, hidden, batch)
        features, guesses = first[:, 0], self.family.head(self.model, first)
        found = list(self.losses.of(guesses.float(), batch, batch.get("taught")).values())
        for number, output in enumerate(self.auxiliaries):
            chosen = (batch["auxiliary"][:, 0] == number) & (batch["share"] > 0)
            guessed = output(features).float()
            classes = batch["auxiliary"][:, 1].clamp(max=guessed.shape[1] - 1)
            losses = F.cross_entropy(guessed, classes, reduction="none")
            found.append((losses * batch["share"] * chosen).sum())
        return torch.stack(found) if self.parts else sum(found[1:], found[0])
