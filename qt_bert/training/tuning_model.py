"""The model as it is tuned: a classifier of any kind, and auxiliary outputs it later drops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.encoder.families import Family
from qt_bert.encoder.tuning import open_for_tuning
from qt_bert.training.packing import packed_hidden


class LabelTuning(nn.Module, ABC):
    """`model` plus one linear output per auxiliary source, which read its features [examples, width].

    `labels` of the main output are grades 1 … 5, or ordered levels.
    """

    parts: tuple[str, ...] = ()
    compiles = True

    def __init__(self, model: Any, width: int, auxiliaries: Mapping[str, list[str]]) -> None:
        super().__init__()
        self.model = model
        self.auxiliaries = nn.ModuleList(
            nn.Linear(width, len(labels)) for labels in auxiliaries.values()
        )

    @abstractmethod
    def seen(self, batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Features [examples, width] and logits [examples, labels]."""

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """−log Σ p(g) over each label's set, weighted by `share`, plus the auxiliary cross-entropies."""
        features, guesses = self.seen(batch)
        logits = guesses.float()
        total = (label_set_loss(logits, batch["allowed"]) * batch["share"]).sum()
        for number, output in enumerate(self.auxiliaries):
            chosen = (batch["auxiliary"][:, 0] == number) & (batch["share"] > 0)
            guessed = output(features).float()
            classes = batch["auxiliary"][:, 1].clamp(max=guessed.shape[1] - 1)
            losses = F.cross_entropy(guessed, classes, reduction="none")
            total = total + (losses * batch["share"] * chosen).sum()
        return total


class TuningModel(LabelTuning):
    """A cross-encoder (Hugging Face sequence classification); its features are the last hidden state of
    the first token. The lowest `apart` layers are those of an offline model's block."""

    def __init__(
        self, model: Any, family: Family, auxiliaries: Mapping[str, list[str]], apart: int = 0
    ) -> None:
        super().__init__(model, model.config.hidden_size, auxiliaries)
        self.family = self.kind = family
        self.apart = apart

    @classmethod
    def open(
        cls,
        base: Path,
        labels: int,
        auxiliaries: Mapping[str, list[str]],
        seed: int,
        apart: int = 0,
    ) -> TuningModel:
        """From a checkpoint folder; outputs it does not hold start at random from `seed`."""
        torch.manual_seed(seed)
        model, family = open_for_tuning(base, labels)
        return cls(model, family, auxiliaries, apart)

    def first_tokens(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Last hidden state of each example's first token [examples, 1, hidden]."""
        backbone = getattr(self.model, self.family.backbone)
        return packed_hidden(backbone, batch, apart=self.apart)[batch["first_slot"]][:, None]

    def seen(self, batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.first_tokens(batch)
        return first[:, 0], self.family.head(self.model, first)


def label_set_loss(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """−log Σ_g p(g) over the allowed labels [examples]; 0 where none is allowed.

    `logits` and `allowed` (0 or 1) are [examples, labels]. An exact label has one allowed.
    """
    kept = logits.masked_fill(allowed == 0, torch.finfo(logits.dtype).min)
    loss = torch.logsumexp(logits, -1) - torch.logsumexp(kept, -1)
    return torch.where(allowed.any(-1), loss, torch.zeros_like(loss))
