"""The model as it is tuned: auxiliary outputs, layers of an offline model, added layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import ArgumentError
from qt_bert.models.card import LEAST, Offline
from qt_bert.models.families import Family
from qt_bert.models.loading import open_for_tuning
from qt_bert.scoring.title_states import title_at
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.packing import packed_hidden, read_states

# The model as it is tuned: a classifier, and auxiliary outputs it later drops.


class TuningModel(nn.Module):
    """A cross-encoder (Hugging Face sequence classification) plus one linear output per auxiliary source.

    The outputs read its features, the last hidden state of the first token. `labels` of the main
    output are grades 1 … 5, or ordered levels. The lowest `apart` layers are those of an offline
    model's block. `losses` are those of the main output.
    """

    def __init__(
        self,
        model: Any,
        family: Family,
        auxiliaries: Mapping[str, list[str]],
        apart: int = 0,
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
        self.apart = apart

    @classmethod
    def open(
        cls,
        base: Path,
        labels: int,
        auxiliaries: Mapping[str, list[str]],
        seed: int,
        apart: int = 0,
        losses: Losses | None = None,
    ) -> TuningModel:
        """From a checkpoint folder; outputs it does not hold start at random from `seed`."""
        torch.manual_seed(seed)
        model, family = open_for_tuning(base, labels)
        return cls(model, family, auxiliaries, apart, losses)

    def first_tokens(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The last hidden state of each example that is read [examples, 1, hidden]."""
        hidden = packed_hidden(self.model, self.family, batch, apart=self.apart)
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


# Layers for an offline model that matches above its block: those of the base that stay, lifted.
#
# In many models the terms of query and title are matched in the lowest layers, which an offline
# model must run apart. So its upper layers start as chosen layers of the base, the ones that a plan
# keeps, and its lower ones as layers that hand on what they get and learn from there (block
# expansion, Wu et al. 2024, LLaMA Pro): before the first step the model is about the one that the
# plan keeps.


def listed_layers(text: str) -> list[int]:
    """The numbers in `0,1,4`. Raises ArgumentError where it is no such list."""
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise ArgumentError(
            f"--layers-above {text!r}: give layers of the base, such as 0,1,4"
        ) from None


@torch.no_grad()
def lift_layers(model: Any, family: Family, lifted: Sequence[int], below: int) -> None:
    """Start the layers from `below` on as the layers `lifted` of the same model, in place.

    The layers under `below` keep their queries, keys, values and wider layers, and hand on what they
    get: what they would add is 0, and their norms restore mean and scale of the embeddings. Raises
    ArgumentError where there are not as many `lifted` as upper layers, or one is not the model's.
    """
    backbone = family.backbone_of(model)
    layers = family.layers_of(model)
    if len(lifted) != len(layers) - below:
        raise ArgumentError(
            f"--layers-above names {len(lifted)} layers; above {below} of {len(layers)} layers "
            f"there are {len(layers) - below}"
        )
    unknown = [one for one in lifted if not 0 <= one < len(layers)]
    if unknown:
        raise ArgumentError(
            f"--layers-above {unknown[0]}: the base has layers 0 to {len(layers) - 1}"
        )
    states = [
        {name: tensor.clone() for name, tensor in layers[one].state_dict().items()}
        for one in lifted
    ]
    for layer, state in zip(layers[below:], states, strict=True):
        layer.load_state_dict(state)
    mean, scale = _spread(backbone)
    for layer in layers[:below]:
        for dense in (layer.attention.output.dense, layer.output.dense):
            dense.weight.zero_()
            dense.bias.zero_()
        for norm in (layer.attention.output.LayerNorm, layer.output.LayerNorm):
            norm.weight.fill_(scale)
            norm.bias.fill_(mean)


def _spread(backbone: Any) -> tuple[float, float]:
    """Mean and standard deviation that the embeddings of a token have over their numbers.

    Their norm leaves z of mean 0 and variance 1, times its weight, plus its bias; some families
    project that. Taken for numbers of z that do not vary together.
    """
    norm = backbone.embeddings.LayerNorm
    project = getattr(backbone, "embeddings_project", None)
    if project is None:
        centre, variance = norm.bias, norm.weight.square()
    else:
        centre = project(norm.bias)
        variance = (project.weight * norm.weight).square().sum(1)
    total = variance.mean() + centre.var(correction=0)
    return float(centre.mean()), float(total.sqrt())


# The block of an offline model that a run trains: which layers, and where titles begin and end.


COVERED = 0.95
"""Share of the pairs whose query ends before titles begin."""


@dataclass(frozen=True)
class BlockRequest:
    """What `--offline-layers`, `--title-start` and `--title-tokens` say; None where they say nothing.

    No layers is a plain model, whatever the base is.
    """

    offline_layers: int | None = None
    title_start: int | None = None
    title_tokens: int | None = None

    def describe(self) -> dict[str, int]:
        """What was said."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check(self) -> None:
        """Raise ArgumentError for what cannot be meant of any model."""
        for name, value in self.describe().items():
            least = LEAST[name.removeprefix("offline_")]
            if value < least:
                raise ArgumentError(f"{_option(name)} {value}: give {least} or more")

    def of(
        self, base: Offline | None, measured: Measured, layers: int
    ) -> tuple[Offline | None, str]:
        """The block of a run from a model of `layers` layers whose own block is `base`, and what its
        title start rests on; None: plain.

        What is not asked for is as in `base`; without one, titles begin where the queries of
        `measured` end, and have what is left of the sequence. Raises ArgumentError for a block that
        the model has no layers or no room for, and where titles of a plain model are to be placed.
        """
        number = self.offline_layers
        if number is None and base is not None:
            number = base.layers
        if number is None or self.offline_layers == 0:
            for name in ("title_start", "title_tokens"):
                if name in self.describe():
                    raise ArgumentError(
                        f"{_option(name)} places titles of an offline model: give "
                        "--offline-layers, too"
                    )
            return None, ""
        if self.title_start is not None:
            start, source = self.title_start, "asked for"
        elif base is not None:
            start, source = base.title_start, "the base's own"
        else:
            start = measured.title_start()
            source = f"{COVERED:.0%} of the queries of {measured.name}"
        room, separators = measured.reading.max_length, measured.reading.title_separators
        left = room - start - separators
        if left < 1:
            raise ArgumentError(
                f"--max-length {room}: titles that begin at position {start} have no room; give "
                "more, or a smaller --title-start"
            )
        known = left if base is None else min(left, base.title_tokens)
        block = Offline(number, start, self.title_tokens or known)
        block.check_room(room, separators, "this run")
        return block.checked(layers, "--offline-layers"), source


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Measured:
    """Pairs on which queries are measured, the file's name, and the tokenizer that reads them."""

    pairs: Sequence[Pair]
    name: str
    reading: PairTokenizer

    def title_start(self) -> int:
        """The 95th percentile of the tokens before a title: [CLS], query and first separator.

        Raises ArgumentError where there is no pair.
        """
        if not self.pairs:
            raise ArgumentError(f"{self.name}: no pair to measure queries on; give --title-start")
        before = np.quantile(self.before, COVERED, method="higher")
        return max(LEAST["title_start"], int(before))

    @cached_property
    def before(self) -> np.ndarray:
        """How many tokens stand before each pair's title [n]."""
        encoded = self.reading.encode([(p.query, p.title) for p in self.pairs], offsets=False)
        return np.array([title_at(one) for one in encoded])
