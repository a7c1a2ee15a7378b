"""The model as it is tuned: a classifier, and auxiliary outputs it later drops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.models.families import Family
from qt_bert.models.loading import open_for_tuning
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.packing import packed_hidden, read_states


class TuningModel(nn.Module):
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
        self.parts: tuple[str, ...] = (*self.losses.weights.parts, *auxiliaries) if several else ()
        self.model = model
        self.auxiliaries = nn.ModuleList(
            nn.Linear(model.config.hidden_size, len(labels)) for labels in auxiliaries.values()
        )
        self.family = family

    @classmethod
    def open(
        cls,
        base: Path,
        labels: int,
        auxiliaries: Mapping[str, list[str]],
        seed: int,
        losses: Losses | None = None,
    ) -> TuningModel:
        """From a checkpoint folder; outputs it does not hold start at random from `seed`."""
        torch.manual_seed(seed)
        model, family = open_for_tuning(base, labels)
        return cls(model, family, auxiliaries, losses)

    def first_tokens(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The last hidden state of each example that is read [examples, 1, hidden]."""
        hidden = packed_hidden(self.model, self.family, batch)
        return read_states(self.model, self.family, hidden, batch)

    def seen(self, batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Features [examples, hidden] and logits [examples, labels]."""
        first = self.first_tokens(batch)
        return first[:, 0], self.family.head(self.model, first)

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The losses weighted by `share` and the auxiliary cross-entropies: the `parts`, else their sum."""
        features, guesses = self.seen(batch)
        found = list(self.losses.of(guesses.float(), batch, batch.get("taught")).values())
        for number, output in enumerate(self.auxiliaries):
            chosen = (batch["auxiliary"][:, 0] == number) & (batch["share"] > 0)
            guessed = output(features).float()
            classes = batch["auxiliary"][:, 1].clamp(max=guessed.shape[1] - 1)
            losses = F.cross_entropy(guessed, classes, reduction="none")
            found.append((losses * batch["share"] * chosen).sum())
        return torch.stack(found) if self.parts else sum(found[1:], found[0])
