"""Soft counts: how much attention passes between the query's terms and the title, by head.

After Lu, Chen and Eickhoff 2025, who read matching heads as a soft term frequency: the feature of a
head is Σ over the query's terms of idf × the attention between the term's tokens and all tokens of the
title. Weights are taken as they are and summed over the term's tokens and the title's, in either
direction: what the term gives the title, or what the title gives the term.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.segmenters import Span
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.models.batches import Batch
from qt_bert.probes.shift.terms import tokens_within
from qt_bert.probes.streams import stream
from qt_bert.probes.surrogate.terms import Idf, Term
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray

Weighed = Sequence[tuple[Span, float]]
"""Where the terms of a query stand, and what each weighs."""


class SoftCounts:
    """The reduction [B, heads, 2]: title to query, query to title, as in `cells.DIRECTIONS`.

    `queries` holds the weighed terms of each pair, by row of the stream.
    """

    def __init__(self, queries: Sequence[Weighed]) -> None:
        self._queries = queries
        self._batch: Batch | None = None

    def __call__(self, view: View) -> torch.Tensor:
        if self._batch is not view.batch:
            self._batch = view.batch
            device = view.values.device
            self._weights, self._titles = (one.to(device) for one in self._of(view.batch))
        maps = view.values.float()
        given = (maps @ self._titles[:, None, :, None])[..., 0]  # by each token to the title
        got = (self._titles[:, None, None, :] @ maps)[..., 0, :]  # by each token from the title
        return torch.stack([(one * self._weights[:, None]).sum(-1) for one in (got, given)], dim=-1)

    def _of(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """The idf of each token's terms, and 1 at the title's tokens, both [B, L]."""
        weights, titles = (torch.zeros(batch.input_ids.shape) for _ in range(2))
        for place, (row, encoded) in enumerate(zip(batch.rows, batch.encoded, strict=True)):
            weights[place, : len(encoded)] = torch.from_numpy(
                token_weights(encoded, self._queries[row])
            )
            titles[place, : len(encoded)] = torch.tensor(encoded.side) == TITLE
        return weights, titles


def token_weights(encoded: EncodedPair, query: Weighed) -> FloatArray:
    """Σ of the weights of the terms that each token lies within [tokens]; 0 outside the query."""
    found = np.zeros(len(encoded))
    for span, weight in query:
        found[tokens_within(encoded, QUERY, span)] += weight
    return found


def soft_counts(
    scorer: Scorer,
    texts: Sequence[tuple[str, str]],
    queries: Sequence[Sequence[Term]],
    idf: Idf,
    *,
    shown: Progress = silent,
) -> tuple[FloatArray, np.ndarray]:
    """Soft counts of every head [pairs, layers, heads, 2], and the logits [pairs, labels].

    `queries` are the terms of each pair's query. One pass; `shown` counts pairs.
    """
    weighed = [[(term.span, idf.of(term.word)) for term in query] for query in queries]
    layers = tuple(range(len(scorer.encoder.layers)))
    reduction = Reduction("soft", "attention", layers, SoftCounts(weighed))
    found = stream(scorer, texts, [reduction], shown=shown)
    return found["soft"][0].astype(np.float64), found["logits"][0]
