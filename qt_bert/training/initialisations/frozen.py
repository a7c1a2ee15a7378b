"""The pretrained encoder left as it is: its first-token vectors, and heads on top of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.pairs import Pair
from qt_bert.progress import progress
from qt_bert.training.finetune_batches import BatchLayout, plan_epoch, to_tensors
from qt_bert.training.initialisations.job import LABELS, HeadSettings
from qt_bert.training.judged_on import reading
from qt_bert.training.labelled import LabelledExample
from qt_bert.training.masters import MasterWeights, linear_schedule
from qt_bert.training.tuning_model import TuningModel, label_set_loss

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
