"""The plain loop: the Hugging Face model, a hook that zeroes one head, batches of 32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qt_bert.data.tokenise import EncodedPair
from qt_bert.heads import Head
from qt_bert.models.batches import Batch, to_batch
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.families import at
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer

PAIRS_A_BATCH = 32
"""By default."""
KERNEL = "sdpa"  # the default of transformers


def plain_batches(
    encoded: Sequence[EncodedPair], *, pad: int, by_length: bool, size: int = PAIRS_A_BATCH
) -> list[Batch]:
    """Batches of `size` pairs padded to the longest, in file order or sorted by length."""
    order = np.arange(len(encoded))
    if by_length:
        order = np.argsort([-len(pair) for pair in encoded], kind="stable")
    starts = range(0, len(order), size)
    return [
        to_batch(rows, [encoded[i] for i in rows], pad=pad)
        for rows in (order[start : start + size] for start in starts)
    ]


class PlainLoop:
    """The plain loop over some heads, with batches on the scorer's device; a call fills `logits`."""

    def __init__(
        self,
        scorer: Scorer,
        encoded: Sequence[EncodedPair],
        heads: Sequence[Head],
        *,
        by_length: bool,
        size: int = PAIRS_A_BATCH,
    ) -> None:
        self.checkpoint, self.heads = scorer.checkpoint, heads
        batches = plain_batches(encoded, pad=scorer.pad, by_length=by_length, size=size)
        self.batches = [batch.to(scorer.checkpoint.device) for batch in batches]

    def __call__(self) -> None:
        self.logits = plain_logits(self.checkpoint, self.batches, self.heads)


@torch.inference_mode()
def plain_logits(
    checkpoint: Checkpoint, batches: Sequence[Batch], heads: Sequence[Head]
) -> np.ndarray:
    """Logits [heads, pairs, labels] with each head left out in turn."""
    pairs = sum(map(len, batches))
    logits = np.empty((len(heads), pairs, checkpoint.model.config.num_labels), np.float32)
    for number, head in enumerate(heads):
        with zeroed(checkpoint, head):
            for batch in batches:
                logits[number, batch.rows] = forward(checkpoint, batch).float().cpu().numpy()
    return logits


def forward(checkpoint: Checkpoint, batch: Batch) -> torch.Tensor:
    """The model's own forward pass [B, labels]."""
    types = {"token_type_ids": batch.token_type_ids} if checkpoint.family.segments else {}
    return checkpoint.model(
        input_ids=batch.input_ids, attention_mask=batch.real.long(), **types
    ).logits


@contextmanager
def zeroed(checkpoint: Checkpoint, head: Head) -> Iterator[None]:
    """The model with one head's slice at the input of the attention output matrix set to 0."""
    family = checkpoint.family
    layer = family.layers_of(checkpoint.model)[head.layer]

    def zero(module: Any, inputs: tuple[torch.Tensor]) -> torch.Tensor:
        context = inputs[0].clone()
        context.unflatten(-1, (checkpoint.heads, -1))[..., head.head, :] = 0
        return context

    handle = at(layer, family.parts.output).register_forward_pre_hook(zero)
    try:
        yield
    finally:
        handle.remove()


@torch.inference_mode()
def forward_all(folder: Path, texts: list[tuple[str, str]], max_length: int) -> None:
    """Open a model and run it once over the pairs, to compare memory."""
    checkpoint = open_checkpoint(folder, attention=KERNEL)
    encoded = checkpoint.pair_tokenizer(max_length).encode(texts, offsets=False)
    pad = checkpoint.pad
    for batch in plain_batches(encoded, pad=pad, by_length=False):
        forward(checkpoint, batch)
