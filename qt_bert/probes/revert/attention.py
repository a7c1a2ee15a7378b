"""Attention to the same term and the same word, before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter
from qt_bert.models.batches import Batch
from qt_bert.models.forward import Encoder
from qt_bert.probes.naming import by_query
from qt_bert.probes.revert.cells import QUANTITIES, Cells, Words
from qt_bert.probes.shift_maps import OfBoth, of_both
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray

When = Literal["before", "after"]


@dataclass(frozen=True, eq=False)
class Attention:
    """Two models on the same pairs: `before` and `after` [pairs, layers, heads, QUANTITIES].

    NaN for a pair that has no such token.
    """

    pairs: Sequence[Pair]
    before: FloatArray
    after: FloatArray

    def of(self, when: When, name: str) -> FloatArray:
        """One of QUANTITIES by pair [pairs, layers, heads]."""
        values = self.before if when == "before" else self.after
        return np.asarray(values[..., QUANTITIES.index(name)])

    def weight(self, when: When, name: str) -> FloatArray:
        """One of QUANTITIES as means of each query [queries, layers, heads]."""
        return by_query(self.of(when, name), [pair.query for pair in self.pairs])

    def change(self, name: str) -> FloatArray:
        """One of QUANTITIES, after less before [queries, layers, heads]."""
        return self.weight("after", name) - self.weight("before", name)


def attention_of(
    base: Encoder,
    scorer: Scorer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    *,
    shown: Progress = silent,
) -> Attention:
    """Run both models on the same batches; `scorer` is the later one. `shown` counts pairs."""
    texts = [(pair.query, pair.title) for pair in pairs]
    words = [Words(*text, segmenter) for text in texts]

    def measure(batch: Batch) -> OfBoth:
        return Cells.of(batch, [words[row] for row in batch.rows]).of_both

    found = of_both(base, scorer, texts, measure, shown=shown)
    before, after = np.split(found, 2, axis=-1)
    return Attention(pairs, before, after)
