"""The two arms that leave the pretrained encoder as it is: head untrained, and head trained.

The encoder sees every pair once; heads are trained on its first-token vectors.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from experiments.initialisations.job import LABELS, HeadSettings, Outputs, StudyJob
from experiments.initialisations.record import SPLITS, Try
from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.models.checkpoint import open_tokenizer
from qt_bert.progress import progress
from qt_bert.training.batches import (
    BatchLayout,
    LabelledExample,
    plan_epoch,
    to_tensors,
    training_set,
)
from qt_bert.training.losses import label_set_loss
from qt_bert.training.masters import MasterWeights, linear_schedule
from qt_bert.training.model import TuningModel
from qt_bert.training.selection import reading

WARMUP = 0.06


@dataclass(frozen=True, eq=False)
class Seen:
    """What the frozen encoder says of pairs: vectors [n, hidden], `allowed` outputs [n, outputs] and
    weights [n] of their labels."""

    vectors: torch.Tensor
    allowed: torch.Tensor
    weights: torch.Tensor


@torch.inference_mode()
def see(model: TuningModel, examples: Sequence[LabelledExample], layout: BatchLayout) -> Seen:
    """The last hidden state of each example's first token, in their order."""
    vectors = torch.empty(len(examples), model.model.config.hidden_size)
    with progress(len(examples), "frozen encoder", "pairs") as shown:
        for plan in plan_epoch(examples, layout, seed=0, epoch=0):
            places = [place for row in plan.rows for place in row]
            first = model.first_tokens(to_tensors(plan, examples, layout))
            vectors[places] = first[: len(places), 0]
            shown.advance(len(places))
    return Seen(
        vectors,
        torch.from_numpy(np.stack([example.allowed for example in examples])),
        torch.tensor([example.weight for example in examples]),
    )


@dataclass(frozen=True, eq=False)
class TrainedHead:
    """The model that holds a head's best reading, which is that after `step` of `steps`."""

    opened: TuningModel
    step: int
    steps: int


@torch.inference_mode()
def head_logits(opened: TuningModel, vectors: torch.Tensor) -> np.ndarray:
    """Float32 logits [n, outputs] of the head on first-token vectors [n, hidden]."""
    logits: np.ndarray = opened.family.head(opened.model, vectors[:, None]).float().numpy()
    return logits


def train_head(
    opened: TuningModel,
    train: Seen,
    discovery: Seen,
    pairs: list[Pair],
    *,
    rate: float,
    seed: int,
    metric: str,
    settings: HeadSettings,
) -> TrainedHead:
    """Train pooler and classifier of `opened` alone; it ends with the weights judged best."""
    for name, parameter in opened.model.named_parameters():
        parameter.requires_grad_(name.startswith("classifier.") or ".pooler." in name)
    masters = MasterWeights(opened.model, torch.float32, lr=rate)
    batches = _batches(len(train.vectors), settings, seed)
    ends = {
        round(len(batches) * (part + 1) / settings.readings) for part in range(settings.readings)
    }
    best, kept, at = None, masters.masters, 0
    for step, rows in enumerate(batches):
        _loss(opened, train, rows).backward()
        warmup = max(1, int(WARMUP * len(batches)))
        masters.step(linear_schedule(step, warmup=warmup, total=len(batches)))
        if step + 1 in ends:
            found = reading(head_logits(opened, discovery.vectors), pairs, LABELS, metric)
            if found is not None and (best is None or found[1] > best):
                best, at = found[1], step + 1
                kept = [master.detach().clone() for master in masters.masters]
    with torch.no_grad():
        torch._foreach_copy_(masters.masters, kept)
    return TrainedHead(opened, at, len(batches))


def _loss(opened: TuningModel, train: Seen, rows: torch.Tensor) -> torch.Tensor:
    logits = opened.family.head(opened.model, train.vectors[rows][:, None])
    weights = train.weights[rows] / train.weights[rows].sum()
    return (label_set_loss(logits, train.allowed[rows]) * weights).sum()


def _batches(count: int, settings: HeadSettings, seed: int) -> list[torch.Tensor]:
    """Rows of each step: every pair once a pass, in an order from `seed`."""
    rng = np.random.default_rng(seed)
    return [
        rows
        for _ in range(settings.passes)
        for rows in torch.from_numpy(rng.permutation(count)).split(settings.pairs)
    ]


@dataclass
class FrozenArms:
    """Heads over one pretrained encoder, which sees every pair once, when first asked for it."""

    job: StudyJob
    splits: dict[str, list[Pair]]
    max_length: int
    rejects: Path
    _heads: dict[tuple[int, float | None], TrainedHead] = field(default_factory=dict)

    def run(self, seed: int, rate: float | None) -> Try:
        """The head trained from `seed` at `rate`, judged on discovery.

        Without a rate, the classifier stays as drawn from `seed`; the pooler too, where pretraining
        left none.
        """
        started = time.monotonic()
        head = self._head(seed, rate)
        found = reading(
            head_logits(head.opened, self._seen["discovery"].vectors),
            self.splits["discovery"],
            LABELS,
            self.job.metric,
        )
        return Try(
            arm="untrained" if rate is None else "frozen",
            seed=seed,
            rate=rate,
            discovery=None if found is None else found[0],
            step=head.step,
            steps=head.steps,
            seconds=round(time.monotonic() - started, 1),
        )

    def outputs(self, one: Try) -> Outputs:
        """Logits of a run on both splits; a head of an earlier process is trained again."""
        head = self._head(one.seed, one.rate)
        return {split: head_logits(head.opened, self._seen[split].vectors) for split in SPLITS}

    def _head(self, seed: int, rate: float | None) -> TrainedHead:
        if (seed, rate) not in self._heads:
            opened = TuningModel.open(self.job.base, LABELS.logits, {}, seed).eval()
            self._heads[seed, rate] = (
                TrainedHead(opened, 0, 0) if rate is None else self._trained(opened, seed, rate)
            )
        return self._heads[seed, rate]

    def _trained(self, opened: TuningModel, seed: int, rate: float) -> TrainedHead:
        return train_head(
            opened,
            self._seen["train"],
            self._seen["discovery"],
            self.splits["discovery"],
            rate=rate,
            seed=seed,
            metric=self.job.metric,
            settings=self.job.head,
        )

    @cached_property
    def _seen(self) -> dict[str, Seen]:
        opened = TuningModel.open(self.job.base, LABELS.logits, {}, 0).eval()
        tokenizer = open_tokenizer(self.job.base)
        layout = BatchLayout.of(
            opened.family, int(tokenizer.pad_token_id), self.max_length, self.job.tuning.slots
        )
        sources = {
            "train": list(self.job.sources),
            "discovery": [self.job.discovery],
            "validation": [self.job.validation],
        }
        return {
            name: see(
                opened,
                training_set(
                    read, PairTokenizer(tokenizer, self.max_length), LABELS, self.rejects
                ).examples,
                layout,
            )
            for name, read in sources.items()
        }
