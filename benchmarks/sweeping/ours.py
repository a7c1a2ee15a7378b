"""Our loop over every single head, in parts that are timed separately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from qt_bert.ablation.engine import Swept, batch_tokens, sweep
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import with_plain
from qt_bert.ablation.masks import HeadMask
from qt_bert.data.tokenise import EncodedPair
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.devices import GPU_BATCH_TOKENS
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer

Texts = list[tuple[str, str]]


class OurSweep:
    """The sweep over all single heads, mode zero; `run` fills `logits` [1 + heads, pairs, labels]."""

    def __init__(self, scorer: Scorer, encoded: Sequence[EncodedPair]) -> None:
        checkpoint = scorer.checkpoint
        self.encoder = scorer.encoder
        self.shape = Shape(checkpoint.layers, checkpoint.heads)
        self.variants = with_plain(single(self.shape, lambda heads: HeadMask(tuple(heads))))
        budget = batch_tokens(len(self.variants)) if scorer.on_cpu else GPU_BATCH_TOKENS
        self.batches = list(batches_of(encoded, budget, pad=scorer.pad))
        labels = checkpoint.model.config.num_labels
        self.logits = np.empty((len(self.variants), len(encoded), labels), np.float32)

    def swept(self, batches: Iterable[Batch]) -> Iterator[Swept]:
        """Sweep some batches without storing."""
        return sweep(self.encoder, batches, self.variants)

    def run(self, batches: Iterable[Batch]) -> None:
        """Sweep some batches and store their logits."""
        for swept in self.swept(batches):
            self.logits[:, swept.rows] = swept.logits

    def halves(self) -> tuple[list[Batch], list[Batch]]:
        """The even and the odd batches: both have all lengths."""
        return self.batches[::2], self.batches[1::2]

    def one_a_layer(self) -> list[Head]:
        """One head of each layer, of different numbers."""
        return [Head(layer, layer % self.shape.heads) for layer in range(self.shape.layers)]

    def logits_of(self, heads: Sequence[Head]) -> np.ndarray:
        """Logits [heads, pairs, labels] with each of `heads` left out."""
        names = [variant.name for variant in self.variants]
        return self.logits[[names.index(str(head)) for head in heads]]


def sweep_all(folder: Path, texts: Texts, max_length: int) -> None:
    """Open a model and sweep it once, to measure its memory."""
    scorer = Scorer(open_checkpoint(folder), max_length=max_length)
    ours = OurSweep(scorer, scorer.tokenizer.encode(texts, offsets=False))
    ours.run(ours.batches)
