"""Logits of many pairs: tokenised together, computed in rows of one length, handed back in order."""

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
from qt_bert.scoring.judge import check_finite
from qt_bert.shipped import GRADED, shipped

BATCH_TOKENS = {"float32": 1024, "bfloat16": 4096}
"""Tokens a forward pass takes at most on a CPU (one pair, if that is longer): small batches stay in cache."""

WINDOW = 8192
"""Pairs whose tokens are held in memory at a time."""

AHEAD = 32
"""Batches that a GPU is given before anyone waits for it."""

Forward = Callable[[Batch], torch.Tensor]
"""How a batch of B pairs becomes logits [B, labels]."""


@dataclass(frozen=True)
class LeftOut:
    """Heads that a scorer leaves out: their names, what replaces them, and what proves it.

    `means` is the hash of the mean head outputs under the mode `mean`; `intervention` is what is done to
    the heads (`ablation.interventions`), and `forward` runs the model so; `guards` are the figures of the
    check that it really does.
    """

    heads: str
    mode: str
    forward: Forward = field(compare=False, repr=False)
    intervention: Any = field(default=None, compare=False, repr=False)
    means: str | None = None
    guards: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def describe(self) -> dict[str, Any]:
        """`heads_out`, `mode` and, where there are any, the hash of the mean head outputs."""
        means = {} if self.means is None else {"means_sha256": self.means}
        return {"heads_out": self.heads, "mode": self.mode, **means}


class Scorer:
    """Scores pairs with one checkpoint; counts what it had to truncate in `counts`.

    `left_out` says which heads it does without.
    """

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
        own = BATCH_TOKENS[checkpoint.dtype] if self.on_cpu else GPU_BATCH_TOKENS
        self.batch_tokens = batch_tokens or own
        self.memory = Memory(self.batch_tokens)
        self.pad = checkpoint.pad
        self.padded = not checkpoint.padding_leaks
        self.counts = Counts()
        self.left_out: LeftOut | None = None

    def describe(self) -> dict[str, Any]:
        """The checkpoint's plain facts, and which heads are left out."""
        heads = self.left_out.describe() if self.left_out else {}
        return self.checkpoint.describe() | heads

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
        """The checkpoint's."""
        return self.checkpoint.name

    @property
    def settings(self) -> ModelSettings:
        """What its logits mean."""
        return self.checkpoint.settings

    @property
    def forward(self) -> Forward:
        """How a batch becomes logits."""
        return self.encoder.logits_of if self.left_out is None else self.left_out.forward

    def fresh(self) -> Scorer:
        """This scorer with counts of its own and everything else shared."""
        other = copy.copy(self)
        other.counts = Counts()
        return other

    def exact(self) -> Scorer:
        """This scorer where its model is in float32, else one of the model opened a second time in it."""
        checkpoint = self.checkpoint
        if checkpoint.model.dtype == torch.float32:
            return self
        again = replace(reopened(checkpoint, dtype="float32"), settings=checkpoint.settings)
        return Scorer(again, max_length=self.tokenizer.max_length)

    def without(self, left_out: LeftOut) -> Scorer:
        """A fresh one that leaves heads out."""
        other = self.fresh()
        other.left_out = left_out
        return other

    @torch.inference_mode()
    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray:
        """Float32 logits [pair, output] of (query, title) pairs, in their order.

        Raises CheckpointError where an output is NaN or infinite, naming the first such pair.
        """
        out = self._logits(self.batches(pairs, self.batch_tokens), len(pairs), shown)
        return check_finite(out, pairs, self.name)

    @torch.inference_mode()
    def logits_of(self, encoded: Sequence[EncodedPair]) -> np.ndarray:
        """Float32 logits [pair, output] of pairs that are tokens already; nothing is counted."""
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
        """(query, title) pairs as batches of at most `budget` tokens, `window` pairs at a time.

        Within a window the longest come first; `rows` are places in `pairs`. `offsets` asks for the
        spans of tokens. What has to be cut is counted. On a GPU a batch takes `GPU_BATCH_TOKENS` at
        least, and the next window is tokenised while one is computed.
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
    """`encode` of each start; beside a GPU the next in a thread, while one is used."""
    if on_cpu or len(starts) < 2:
        yield from map(encode, starts)
        return
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(encode, starts[0])
        for following in [*starts[1:], None]:
            encoded = coming.result()
            if following is not None:
                coming = pool.submit(encode, following)
            yield encoded
