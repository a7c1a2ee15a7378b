"""The attention of two models on the same tokens, head by head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View, batch_tokens, sweep
from qt_bert.ablation.interventions import NONE
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch
from qt_bert.models.forward import Encoder
from qt_bert.probes.naming import by_query
from qt_bert.probes.shift.maps import Places
from qt_bert.probes.shift.terms import links
from qt_bert.probes.streams import shared_terms
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray

WEIGHTS = ("matched", "self", "sep", "cls")
"""What a token gives to its own term in the other text, to itself, to [SEP], to [CLS]."""

LIKENESS = ("cosine", "cosine_texts", "js_distance")
"""Of two maps: cosine over all tokens, over the texts' columns alone; mean Jensen–Shannon distance."""

OfBoth = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From the maps of one layer before and after [B, heads, L, L] to numbers [B, heads, n]."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two models on the same pairs, per pair, layer and head.

    `before` and `after` [pairs, layers, heads, WEIGHTS] are mean weights over the texts' tokens
    (`matched`: over tokens of matched terms, NaN for a pair without one); `likeness` [pairs, layers,
    heads, LIKENESS]. `pairs_with_terms` counts the pairs with a word in common.
    """

    pairs: Sequence[Pair]
    pairs_with_terms: int
    before: FloatArray
    after: FloatArray
    likeness: FloatArray

    def weight(self, when: str, name: str) -> FloatArray:
        """One of WEIGHTS `before` or `after`, as means of each query [queries, layers, heads]."""
        return self._by_query(getattr(self, when)[..., WEIGHTS.index(name)])

    def change(self, name: str) -> FloatArray:
        """One of WEIGHTS, after less before, as means of each query [queries, layers, heads]."""
        return self.weight("after", name) - self.weight("before", name)

    def alike(self, name: str) -> FloatArray:
        """One of LIKENESS, as means of each query [queries, layers, heads]."""
        return self._by_query(self.likeness[..., LIKENESS.index(name)])

    @property
    def pairs_with_tokens(self) -> int:
        """How many pairs have a word in common that has tokens of its own in both texts."""
        return int(np.isfinite(self.after[:, 0, 0, 0]).sum())

    def _by_query(self, values: FloatArray) -> FloatArray:
        return by_query(values, [pair.query for pair in self.pairs])


def compare(
    base: Encoder,
    scorer: Scorer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    *,
    shown: Progress = silent,
) -> Comparison:
    """Run both models on the same batches; the maps of one batch at a time are held.

    `scorer` is the later model, whose tokens both read. `shown` counts pairs.
    """
    texts = [(pair.query, pair.title) for pair in pairs]
    terms = [shared_terms(*text, segmenter) for text in texts]

    def measure(batch: Batch) -> OfBoth:
        linked = [
            links(encoded, terms[row].values())
            for row, encoded in zip(batch.rows, batch.encoded, strict=True)
        ]
        return Places.of(batch, linked).of_both

    found = of_both(base, scorer, texts, measure, shown=shown)
    before, after, likeness = np.split(found, [len(WEIGHTS), 2 * len(WEIGHTS)], axis=-1)
    return Comparison(pairs, sum(map(bool, terms)), before, after, likeness)


def of_both(
    base: Encoder,
    scorer: Scorer,
    texts: Sequence[tuple[str, str]],
    measure: Callable[[Batch], OfBoth],
    *,
    shown: Progress = silent,
) -> FloatArray:
    """Numbers [pairs, layers, heads, n] made of the attention of two models on the same tokens.

    `scorer` is the later model, whose tokens both read; `measure` says what to make of the maps of a
    batch. The maps of one batch at a time are held. `shown` counts pairs. Raises ArgumentError for no texts.
    """
    if not texts:
        raise ArgumentError("no pairs to look at: the sample is empty")
    found = []
    rows = []
    for batch in scorer.fresh().batches(texts, batch_tokens(), offsets=True):
        found.append(_measured(base, scorer.encoder, batch, measure(batch)))
        rows.append(batch.rows)
        shown.advance(len(batch))
    return np.concatenate(found)[np.argsort(np.concatenate(rows))]


def maps_of(encoder: Encoder, batch: Batch) -> torch.Tensor:
    """The attention of every head on one batch [B, layers, heads, L, L], in float32."""
    layers = tuple(range(len(encoder.layers)))
    whole = Reduction("maps", "attention", layers, lambda view: view.values)
    (swept,) = sweep(encoder, [batch], [NONE], [whole])
    return torch.from_numpy(swept.reduced["maps"][0])


def _measured(base: Encoder, encoder: Encoder, batch: Batch, measure: OfBoth) -> FloatArray:
    """The numbers of one batch [B, layers, heads, n]."""
    earlier = maps_of(base, batch)

    def both(view: View) -> torch.Tensor:
        return measure(earlier[:, view.layer], view.values.float())

    layers = tuple(range(len(encoder.layers)))
    (swept,) = sweep(encoder, [batch], [NONE], [Reduction("both", "attention", layers, both)])
    return np.asarray(swept.reduced["both"][0], np.float64)
