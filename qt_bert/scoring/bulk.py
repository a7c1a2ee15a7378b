"""Logits of many pairs, in batches of similar length; results in input order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from qt_bert.data.tokenise import Counts, EncodedPair
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.card import ModelSettings
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import GPU_BATCH_TOKENS, Memory, has_bfloat16, in_parts
from qt_bert.models.opening import open_checkpoint, reopened
from qt_bert.progress import Progress, silent
from qt_bert.request import ModelOptions
from qt_bert.scoring.judge import TextScorer, check_finite
from qt_bert.shipped import GRADED, shipped

BATCH_TOKENS = {"float32": 1024, "bfloat16": 4096}
"""Most tokens of a CPU batch (or one longer pair): small batches stay in cache."""

WINDOW = 8192
"""Pairs tokenised at a time."""

AHEAD = 32
"""Batches queued on a GPU before waiting for results."""

Forward = Callable[[Batch], torch.Tensor]
"""A batch of B pairs → logits [B, labels]."""


@dataclass(frozen=True)
class LeftOut:
    """Heads that a scorer leaves out, by name and mode.

    `forward` runs the model under `intervention` (`ablation.interventions`); `means` is the hash of the
    mean head outputs for the mode `mean`; `guards` are the figures of the equivalence checks.
    """

    heads: str
    mode: str
    forward: Forward = field(compare=False, repr=False)
    intervention: Any = field(default=None, compare=False, repr=False)
    means: str | None = None
    guards: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def describe(self) -> dict[str, Any]:
        """`heads_out`, `mode` and, for the mode `mean`, `means_sha256`."""
        means = {} if self.means is None else {"means_sha256": self.means}
        return {"heads_out": self.heads, "mode": self.mode, **means}


class Scorer(TextScorer):
    """Scores pairs with a checkpoint, without the heads `left_out`; `counts` has truncated texts."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        longest = checkpoint.longest
        if max_length is not None and max_length > longest:
            raise ArgumentError(
                f"--max-length {max_length}: {checkpoint.name} has positions for {longest} tokens"
            )
        self.checkpoint = checkpoint
        self.encoder = checkpoint.encoder()
        self.tokenizer = checkpoint.pair_tokenizer(max_length)
        self.on_cpu = checkpoint.device.type == "cpu"
        default = BATCH_TOKENS[checkpoint.dtype] if self.on_cpu else GPU_BATCH_TOKENS
        self.batch_tokens = batch_tokens or default
        self.memory = Memory(self.batch_tokens)
        self.pad = checkpoint.pad
        self.padded = not checkpoint.padding_leaks
        self.counts = Counts()
        self.left_out: LeftOut | None = None

    def describe(self) -> dict[str, Any]:
        """The checkpoint's facts, and the heads left out."""
        heads = self.left_out.describe() if self.left_out else {}
        return self.checkpoint.describe() | heads

    def identity(self) -> dict[str, str]:
        """That of the checkpoint, the length, and the heads left out with what replaces them."""
        left_out = self.left_out
        heads = repr((left_out.describe(), left_out.intervention)) if left_out else ""
        length = str(self.tokenizer.max_length)
        return {**self.checkpoint.identity, "max_length": length, "left_out": heads}

    @classmethod
    def open(
        cls,
        options: ModelOptions,
        *,
        compact: bool = False,
        notify: Callable[[str], None] = lambda line: None,
    ) -> Scorer:
        """The model of these options; `notify` gets warnings. `compact`: a pruned one as small as it is stored.

        Raises CheckpointError for a folder that cannot be opened, ArgumentError for an option it cannot have.
        """
        checkpoint = open_checkpoint(
            shipped(GRADED) if options.model is None else options.model,
            dtype=options.dtype,
            device=options.device,
            model_grades=options.model_grades,
            reading=options.reading,
            compact=compact,
        )
        if options.dtype == "bfloat16" and checkpoint.device.type == "cpu" and not has_bfloat16():
            notify("this processor has no bfloat16 products: float32 will be faster")
        return cls(checkpoint, max_length=options.max_length)

    @property
    def name(self) -> str:
        """The checkpoint's name."""
        return self.checkpoint.name

    @property
    def settings(self) -> ModelSettings:
        """The checkpoint's settings: what logits mean."""
        return self.checkpoint.settings

    @property
    def forward(self) -> Forward:
        """The model, without the heads left out."""
        return self.encoder.logits_of if self.left_out is None else self.left_out.forward

    def fresh(self) -> Scorer:
        """A copy with new counts and everything else shared."""
        other = copy.copy(self)
        other.counts = Counts()
        return other

    def exact(self) -> Scorer:
        """This scorer if its model is in float32, else a new one of the model reopened in float32."""
        checkpoint = self.checkpoint
        if checkpoint.model.dtype == torch.float32:
            return self
        again = replace(reopened(checkpoint, dtype="float32"), settings=checkpoint.settings)
        return Scorer(again, max_length=self.tokenizer.max_length)

    def without(self, left_out: LeftOut) -> Scorer:
        """A fresh copy that leaves heads out."""
        other = self.fresh()
        other.left_out = left_out
        return other

    @torch.inference_mode()
    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray:
        """Float32 logits [pair, output]. Raises CheckpointError naming the first not finite."""
        out = self._logits(self.batches(pairs, self.batch_tokens), len(pairs), shown)
        return check_finite(out, pairs, self.name)

    @torch.inference_mode()
    def logits_of(self, encoded: Sequence[EncodedPair]) -> np.ndarray:
        """Float32 logits [pair, output] of tokenised pairs; nothing is counted."""
        batches = batches_of(encoded, self.batch_tokens, pad=self.pad, padded=self.padded)
        return self._logits(batches, len(encoded))

    def _logits(self, batches: Iterable[Batch], pairs: int, shown: Progress = silent) -> np.ndarray:
        out = np.empty((pairs, self.checkpoint.model.config.num_labels), np.float32)
        forward = self.forward
        waiting: list[tuple[np.ndarray, torch.Tensor]] = []

        def store() -> None:
            for rows, logits in waiting:
                out[rows] = logits.cpu().numpy()
            waiting.clear()

        for batch in batches:
            parts = in_parts(batch.to(self.checkpoint.device), self.memory, forward)
            waiting.append((batch.rows, torch.cat(list(parts)).float()))
            if self.on_cpu or len(waiting) == AHEAD:
                store()
            shown.advance(len(batch))
        store()
        return out

    def batches(
        self,
        pairs: Sequence[tuple[str, str]],
        budget: int,
        window: int = WINDOW,
        *,
        offsets: bool = False,
    ) -> Iterator[Batch]:
        """(query, title) pairs as batches of at most `budget` tokens, tokenised `window` pairs at a time.

        Within a window the longest come first; `rows` are indices into `pairs`. With `offsets` tokens
        have spans. Truncated texts are counted. On a GPU the budget is at least `GPU_BATCH_TOKENS`, and
        the next window is tokenised during computation.
        """
        starts = range(0, len(pairs), window)
        budget = budget if self.on_cpu else max(budget, GPU_BATCH_TOKENS)

        def encode(start: int) -> list[EncodedPair]:
            return self.tokenizer.encode(pairs[start : start + window], offsets=offsets)

        for start, encoded in zip(starts, _ahead(encode, starts, self.on_cpu), strict=True):
            self.counts.add(encoded)
            for batch in batches_of(encoded, budget, pad=self.pad, padded=self.padded):
                yield replace(batch, rows=batch.rows + start)


def _ahead(
    encode: Callable[[int], list[EncodedPair]], starts: Sequence[int], on_cpu: bool
) -> Iterator[list[EncodedPair]]:
    """`encode` of each start; for a GPU the next one in a thread meanwhile."""
    if on_cpu or len(starts) < 2:
        yield from map(encode, starts)
        return
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(encode, starts[0])
        for start in [*starts[1:], None]:
            encoded = pending.result()
            if start is not None:
                pending = pool.submit(encode, start)
            yield encoded
