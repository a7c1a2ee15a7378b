"""How much of its attention a head gives to tokens of each kind, beside how many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View, batch_tokens, sweep
from qt_bert.ablation.interventions import NONE
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Shape
from qt_bert.probes.features.kinds import KINDS, of_tokens, place_of
from qt_bert.probes.features.texts import Read
from qt_bert.probes.naming import by_query, means
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, ratio

When = Literal["before", "after"]
MEASURES = ("share", "peak", "cls_share", "cls_peak")
"""What all tokens together give to a kind, and to its token looked at most (the source's measure);
the same of the classification token alone."""


@dataclass(frozen=True, eq=False)
class Looking:
    """The attention of two models, or one, on the same texts.

    `base_rate` [reads, KINDS] is the share of tokens that are of a kind. `after` (the model) and
    `before` (its base, where there is one) [reads, layers, heads, KINDS, MEASURES]. All are NaN where
    the texts have no token of the kind, attention also at heads that were pruned.
    """

    queries: list[str]
    base_rate: FloatArray
    after: FloatArray
    before: FloatArray | None

    def rate(self, kind: str) -> FloatArray:
        """The base rate of a kind in each query [queries]."""
        return by_query(self.base_rate[:, place_of(kind)], self.queries)

    def of(self, kind: str, when: When = "after", measure: str = "share") -> FloatArray:
        """One of MEASURES for a kind, as means of each query [queries, layers, heads]."""
        found = self.after if when == "after" else self.before
        if found is None:
            raise ArgumentError("there is no model before fine-tuning; give its folder with --base")
        return by_query(found[..., place_of(kind), MEASURES.index(measure)], self.queries)

    def lift(self, kind: str, when: When = "after") -> FloatArray:
        """The share of attention over that of tokens, each averaged over queries [layers, heads]."""
        return ratio(means(self.of(kind, when)), means(self.rate(kind)))

    def has(self, kind: str) -> bool:
        """Whether any of the texts has a token of the kind."""
        return bool(np.isfinite(self.base_rate[:, place_of(kind)]).any())


def look(
    scorer: Scorer, base: Encoder | None, reads: Sequence[Read], *, shown: Progress = silent
) -> Looking:
    """Run the model, and `base`, over the same batches; the maps of one layer at a time are held.

    `base` reads the model's tokens. `shown` counts reads. Raises ArgumentError for none.
    """
    if not reads:
        raise ArgumentError("no pairs to look at: the sample is empty")
    shape = scorer.checkpoint.shape
    found = [_empty(shape, len(reads)) for _ in (scorer, base) if _ is not None]
    rates = np.full((len(reads), len(KINDS)), np.nan)
    texts = [(one.texts[0].text, one.texts[1].text) for one in reads]
    for batch in scorer.fresh().batches(texts, batch_tokens(), offsets=True):
        kinds = [
            of_tokens(encoded, *reads[row].texts)
            for row, encoded in zip(batch.rows, batch.encoded, strict=True)
        ]
        rates[batch.rows] = [one.mean(axis=0) for one in kinds]
        compute = looked_at(batch, kinds)
        for encoder, store in zip((scorer.encoder, base), found, strict=False):
            if encoder is not None:
                store[batch.rows] = _run(encoder, batch, compute)
        shown.advance(len(batch))
    missing = rates == 0
    rates[missing] = np.nan
    for one in found:
        one[np.broadcast_to(missing[:, None, None, :, None], one.shape)] = np.nan
        for layer, head in shape.absent:
            one[:, layer, head] = np.nan
    queries = [one.query for one in reads]
    return Looking(queries, rates, found[0], found[1] if base is not None else None)


def looked_at(batch: Batch, kinds: Sequence[FloatArray]) -> Callable[[View], torch.Tensor]:
    """Attention maps [B, heads, L, L] to [B, heads, KINDS, MEASURES], for the `kinds` of a batch.

    Rows are averaged over the real tokens, special ones too, as in the source.
    """
    size, length = batch.input_ids.shape
    weights = np.zeros((size, length, len(KINDS)), np.float32)
    for row, one in enumerate(kinds):
        weights[row, : len(one)] = one
    of = torch.from_numpy(weights)
    rows = batch.real.float()
    rows = rows / rows.sum(1, keepdim=True)

    def compute(view: View) -> torch.Tensor:
        maps = view.values.float()
        together, first = torch.einsum("bhij,bi->bhj", maps, rows), maps[:, :, 0]
        numbers = [part for columns in (together, first) for part in _both(columns, of)]
        return torch.stack(numbers, dim=-1)

    return compute


def _both(columns: torch.Tensor, of: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What [B, heads, L] gives to all tokens of a kind and to the most of one, by `of` [B, L, KINDS]."""
    most = (columns[..., None] * of[:, None]).amax(2)
    return columns @ of, most


def _run(encoder: Encoder, batch: Batch, compute: Callable[[View], torch.Tensor]) -> FloatArray:
    layers = tuple(range(len(encoder.layers)))
    (swept,) = sweep(encoder, [batch], [NONE], [Reduction("kinds", "attention", layers, compute)])
    return np.asarray(swept.reduced["kinds"][0])


def _empty(shape: Shape, reads: int) -> FloatArray:
    # Single precision: with --full and a large model these are what takes the memory.
    size = (reads, *shape.size, len(KINDS), len(MEASURES))
    return np.full(size, np.nan, np.float32)  # type: ignore[return-value]
