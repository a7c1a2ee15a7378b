"""Cells of a pair's attention map: the same term in the other text, and the same word anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.data.segmenters import Segmenter
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.models.batches import Batch
from qt_bert.probes.matching_scores import sink_free
from qt_bert.probes.shift_maps import links, tokens_within
from qt_bert.probes.streams import Shared, shared_terms
from qt_bert.stats.arrays import BoolArray

QUANTITIES = ("across", "across_plain", "same", "itself", "near", "far")
"""Mean weights of a pair in one head.

`across`: what a token of a term that stands in both texts gives to that term in the other text, as
a share of what it gives to the two texts' tokens other than itself; `across_plain`: the same as a
share of all its attention. `same`: what a token of any word gives to all tokens of the same word in
either text, itself included, as a share of all its attention; it is the sum of `itself`, `near` (others
of the same word in its own text, the word's other characters among them) and `far` (in the other text).
"""


class Words:
    """Where the words of a pair stand: all of them, and the terms that both texts share."""

    def __init__(self, query: str, title: str, segmenter: Segmenter) -> None:
        self.shared: list[Shared] = list(shared_terms(query, title, segmenter).values())
        self._places = [
            (side, (start, end), text[start:end].casefold())
            for side, text in ((QUERY, query), (TITLE, title))
            for start, end in segmenter.spans(text)
            if any(map(str.isalnum, text[start:end]))
        ]

    def alike(self, encoded: EncodedPair) -> BoolArray:
        """[tokens, tokens]: whether two tokens lie within the same word, in whichever text.

        Function words count, punctuation does not; a token that reaches over a word's edge is of none.
        """
        numbers = {word: number for number, word in enumerate({word for *_, word in self._places})}
        within = np.zeros((len(numbers), len(encoded)), np.float32)
        for side, span, word in self._places:
            within[numbers[word], tokens_within(encoded, side, span)] = 1
        return np.asarray(within.T @ within > 0)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a batch, 0 or 1.

    `linked` and `parts` (itself, near, far) are [B, kinds, L, L], `texts` [B, L] is True at the tokens
    of query and title.
    """

    linked: torch.Tensor
    parts: torch.Tensor
    texts: torch.Tensor

    @classmethod
    def of(cls, batch: Batch, words: Sequence[Words]) -> Cells:
        """Those of a batch encoded with offsets; `words` of its pairs."""
        size, length = batch.input_ids.shape
        linked = np.zeros((size, 1, length, length), np.float32)
        parts = np.zeros((size, 3, length, length), np.float32)
        texts = np.zeros((size, length), np.bool_)
        for row, (encoded, one) in enumerate(zip(batch.encoded, words, strict=True)):
            own = slice(len(encoded))
            side, alike = np.array(encoded.side), one.alike(encoded)
            itself, near = np.eye(len(side), dtype=bool), side[:, None] == side
            linked[row, 0, own, own] = links(encoded, one.shared)
            parts[row, :, own, own] = alike & itself, alike & near & ~itself, alike & ~near
            texts[row, own] = side != SPECIAL
        found = (torch.from_numpy(one).to(batch.input_ids.device) for one in (linked, parts, texts))
        return cls(*found)

    def of_both(self, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """The QUANTITIES of two models' maps, one after the other [B, heads, 12]."""
        return torch.cat([self.weights(before), self.weights(after)], dim=-1)

    def weights(self, maps: torch.Tensor) -> torch.Tensor:
        """The QUANTITIES of maps [B, heads, L, L]: [B, heads, 6]; NaN where a pair has no such row."""
        across = _sums(sink_free(maps, self.texts), self.linked) / _rows(self.linked)
        plain = _sums(maps, self.linked) / _rows(self.linked)
        parts = _sums(maps, self.parts) / _rows(self.parts[:, :1])  # a token of a word is itself
        return torch.cat([across, plain, parts.sum(-1, keepdim=True), parts], dim=-1)


def _sums(maps: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """[B, heads, L, L] over cells [B, kinds, L, L]: [B, heads, kinds]."""
    return maps.flatten(2) @ cells.flatten(2).transpose(1, 2)


def _rows(cells: torch.Tensor) -> torch.Tensor:
    """How many rows have a cell [B, 1, 1], of cells [B, 1, L, L]."""
    return cells.amax(-1).sum(-1)[..., None]
