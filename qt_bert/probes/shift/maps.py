"""What is measured of attention maps [B, heads, L, L]: weights on kinds of tokens, likeness of two maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.data.tokenise import SPECIAL
from qt_bert.models.batches import CLS, Batch
from qt_bert.stats.arrays import BoolArray


@dataclass(frozen=True, eq=False)
class Places:
    """Which tokens of a batch are what, 0 or 1.

    `links` [B, 1, L, L] joins the tokens of a matched term; `real`, `text` (tokens of query and
    title), `sep` and `cls` are [B, 1, L].
    """

    links: torch.Tensor
    real: torch.Tensor
    text: torch.Tensor
    sep: torch.Tensor
    cls: torch.Tensor

    @classmethod
    def of(cls, batch: Batch, linked: Sequence[BoolArray]) -> Places:
        """Those of `batch`; `linked` holds a matrix [tokens, tokens] for each of its pairs."""
        size, length = batch.input_ids.shape
        links = np.zeros((size, 1, length, length), np.float32)
        text = np.zeros((size, 1, length), np.float32)
        for row, (encoded, one) in enumerate(zip(batch.encoded, linked, strict=True)):
            links[row, 0, : len(one), : len(one)] = one
            text[row, 0, : len(encoded)] = np.array(encoded.side) != SPECIAL
        texts = torch.from_numpy(text)
        real = batch.real[:, None].float()
        first = (batch.groups == CLS)[:, None].float()
        return cls(torch.from_numpy(links), real, texts, real - texts - first, first)

    def of_both(self, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """Weights before, weights after and likeness of two models' maps [B, heads, 4 + 4 + 3]."""
        parts = self.weights(before), self.weights(after), self.likeness(before, after)
        return torch.cat(parts, dim=-1)

    def weights(self, maps: torch.Tensor) -> torch.Tensor:
        """Mean weights that the texts' tokens give [B, heads, 4], in the order of `WEIGHTS`.

        That is to the same term in the other text (over tokens of matched terms; NaN where there
        are none), to themselves, to all separators, to the classification token.
        """
        matched = (maps * self.links).sum(-1)
        own = maps.diagonal(dim1=-2, dim2=-1)
        to_sep, to_cls = ((maps * kind[..., None, :]).sum(-1) for kind in (self.sep, self.cls))
        rows = self.links.amax(-1)
        means = [_mean(matched, rows)]
        means += [_mean(given, self.text) for given in (own, to_sep, to_cls)]
        return torch.stack(means, dim=-1)

    def likeness(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Of two models' maps [B, heads, 3], in the order of `LIKENESS`; padding does not count."""
        rows = self.real[..., None]
        whole = rows * self.real[..., None, :]
        texts = rows * self.text[..., None, :]
        distance = _mean(_js_distance(one, other), self.real)
        return torch.stack([_cosine(one, other, whole), _cosine(one, other, texts), distance], -1)


def _mean(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The mean of [B, heads, L] over the `rows` [B, 1, L] that are 1; NaN where none is."""
    return (values * rows).sum(-1) / rows.sum(-1)


def _cosine(one: torch.Tensor, other: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """The cosine of two maps flattened over `cells` [B, 1, L, L]: [B, heads]."""
    flat = [(maps * cells).flatten(-2) for maps in (one, other)]
    return torch.cosine_similarity(flat[0], flat[1], dim=-1)


def _js_distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """√ of the Jensen–Shannon divergence, base 2, of each row's two distributions [B, heads, L]."""
    mixture, *alone = (torch.special.entr(maps).sum(-1) for maps in ((one + other) / 2, one, other))
    divergence = mixture - (alone[0] + alone[1]) / 2
    return (divergence.clamp(min=0) / math.log(2)).sqrt()
