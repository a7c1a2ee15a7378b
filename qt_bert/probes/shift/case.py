"""The article's case: one pair's map in one head, before and after fine-tuning (2.4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from qt_bert.probes.shift.compare import maps_of
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray

QUERY, TITLE = "我在伊朗长大", "假期电影《我在伊朗长大》"


@dataclass(frozen=True, eq=False)
class Case:
    """One head's maps `before` and `after` [tokens, tokens], and what the tokens are."""

    head: Head
    tokens: tuple[str, ...]
    before: FloatArray
    after: FloatArray

    @property
    def strengthened(self) -> FloatArray:
        """max(after − before, 0); the article prints the difference with its sign reversed."""
        return np.maximum(self.after - self.before, 0)

    @property
    def weakened(self) -> FloatArray:
        """max(before − after, 0)."""
        return np.maximum(self.before - self.after, 0)


def case_of(base: Encoder, scorer: Scorer, head: Head) -> Case:
    """The article's pair under both models."""
    texts = [(QUERY, TITLE)]
    (batch,) = scorer.fresh().batches(texts, len(QUERY + TITLE))
    before, after = (
        maps_of(encoder, batch)[0, head.layer, head.head].numpy().astype(np.float64)
        for encoder in (base, scorer.encoder)
    )
    names = scorer.checkpoint.tokenizer.convert_ids_to_tokens(batch.encoded[0].input_ids)
    return Case(head, tuple(names), before, after)
