"""A model of an architecture as it is tuned: query and title are packed texts that see themselves alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from qt_bert.encoder.architectures import Architecture
from qt_bert.encoder.architectures.model import PairModel
from qt_bert.encoder.architectures.opening import new_model
from qt_bert.encoder.architectures.texts import Matcher, Side
from qt_bert.training.packing import packed_hidden
from qt_bert.training.tuning_model import LabelTuning

Packed = Mapping[str, torch.Tensor]
"""The tensors of a batch, as `finetune_batches.to_tensors` makes them."""


class ApartTuning(LabelTuning):
    """A model that reads the texts apart, tuned on packed batches of `ApartExample`."""

    def __init__(
        self, model: PairModel, kind: Architecture, auxiliaries: Mapping[str, list[str]]
    ) -> None:
        super().__init__(model, model.classifier.in_features, auxiliaries)
        self.kind = kind
        self.compiles = kind.compiles
        self.family = model.family

    @classmethod
    def open(
        cls,
        kind: Architecture,
        base: Path,
        labels: int,
        auxiliaries: Mapping[str, list[str]],
        seed: int,
    ) -> ApartTuning:
        """From a base folder; what it does not hold starts at random from `seed`."""
        torch.manual_seed(seed)
        return cls(new_model(kind, base, labels), kind, auxiliaries)

    def seen(self, batch: Packed) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.model.features(PackedTexts(batch, self._backbone))
        return features, self.model.classifier(features)

    @property
    def _backbone(self) -> Any:
        return None if self.family is None else getattr(self.model, self.family.backbone)


@dataclass(frozen=True, eq=False)
class PackedTexts:
    """The texts of a packed batch, where queries and titles stand in turn."""

    batch: Packed
    backbone: Any

    def matched(self, matcher: Matcher) -> torch.Tensor:
        """0 at places without an example, which the matcher need not read."""
        share = self.batch["share"]
        there = share.nonzero()
        examples = int(there.max()) + 1 if len(there) else 1
        found = matcher(*(side_of(self.batch, text, examples) for text in (0, 1)))
        return F.pad(found, (0, 0, 0, len(share) - examples))

    def first_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        first = packed_hidden(self.backbone, self.batch)[self.batch["first_slot"]]
        return first[0::2], first[1::2]


def side_of(batch: Packed, text: int, examples: int) -> Side:
    """The queries (`text` 0) or titles (1) of a batch's first examples, unpacked and padded."""
    ids, segment = batch["input_ids"], batch["segment"]
    first = batch["first_slot"][text::2][:examples]
    rows, starts = first // ids.shape[1], first % ids.shape[1]
    lengths = (segment[rows] == segment[rows, starts][:, None]).sum(-1)
    places = torch.arange(int(lengths.max()), device=ids.device)
    real = places < lengths[:, None]
    taken = ids[rows[:, None], (starts[:, None] + places).clamp(max=ids.shape[1] - 1)]
    return Side(taken.masked_fill(~real, 0), real)
