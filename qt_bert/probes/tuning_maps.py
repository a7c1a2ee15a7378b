"""The attention of two models on the same tokens, head by head: weights on kinds of tokens, similarity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View, batch_tokens, sweep
from qt_bert.ablation.interventions import NONE
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.models.batches import CLS, Batch
from qt_bert.models.forward import Encoder
from qt_bert.probes.naming import by_query
from qt_bert.probes.streams import Shared, shared_terms, tokens_within
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray

WEIGHTS = ("matched", "self", "sep", "cls")
"""A token's weight on its own term in the other text, on itself, on [SEP], on [CLS]."""

SIMILARITIES = ("cosine", "js_distance")
"""Cosine of two maps over all tokens; mean Jensen–Shannon distance of their rows."""


# Masks of a batch's tokens, and the measures of its maps.


def links(encoded: EncodedPair, terms: Iterable[Shared], *, causal: bool = False) -> BoolArray:
    """[tokens, tokens]: whether two tokens have characters of the same term, one in each text.

    Rows are tokens of both texts, in a `causal` model of the title only. The pair must have been
    encoded with offsets.
    """
    linked = np.zeros((len(encoded), len(encoded)), np.bool_)
    for term in terms:
        rows = [token for span in term.query for token in tokens_within(encoded, QUERY, span)]
        columns = [token for span in term.title for token in tokens_within(encoded, TITLE, span)]
        linked[np.ix_(columns, rows)] = True
    return linked if causal else linked | linked.T


@dataclass(frozen=True, eq=False)
class TokenMasks:
    """Masks of a batch's tokens, 0 or 1.

    `links` [B, 1, L, L] between the tokens of a matched term; [B, 1, L]: `real`, `text` (tokens of query
    and title), `cls` (the special token that the classifier reads), `sep` (all other special tokens).
    """

    links: torch.Tensor
    real: torch.Tensor
    text: torch.Tensor
    sep: torch.Tensor
    cls: torch.Tensor

    @classmethod
    def of(cls, batch: Batch, linked: Sequence[BoolArray]) -> TokenMasks:
        """The masks of `batch`; `linked` has a matrix [tokens, tokens] for each of its pairs."""
        size, length = batch.input_ids.shape
        links = np.zeros((size, 1, length, length), np.float32)
        text = np.zeros((size, 1, length), np.float32)
        for row, (encoded, matrix) in enumerate(zip(batch.encoded, linked, strict=True)):
            links[row, 0, : len(matrix), : len(matrix)] = matrix
            text[row, 0, : len(encoded)] = np.array(encoded.side) != SPECIAL
        texts = torch.from_numpy(text)
        real = batch.real[:, None].float()
        special, read = real - texts, (batch.groups == CLS)[:, None].float()
        return cls(torch.from_numpy(links), real, texts, special * (1 - read), special * read)

    def weights(self, maps: torch.Tensor) -> torch.Tensor:
        """Mean WEIGHTS of the texts' tokens [B, heads, 4]; `matched` over tokens of matched terms.

        NaN without matched terms, separators, or a classification token.
        """
        matched = (maps * self.links).sum(-1)
        own = maps.diagonal(dim1=-2, dim2=-1)
        to_sep, to_cls = ((maps * kind[..., None, :]).sum(-1) for kind in (self.sep, self.cls))
        rows = self.links.amax(-1)
        means = [_mean(matched, rows)]
        means += [_mean(weight, self.text) for weight in (own, to_sep, to_cls)]
        for place, kind in ((2, self.sep), (3, self.cls)):
            means[place] = torch.where(kind.any(-1), means[place], torch.nan)
        return torch.stack(means, dim=-1)

    def similarity(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """The SIMILARITIES of two models' maps [B, heads, 2], without padding."""
        whole = self.real[..., None] * self.real[..., None, :]
        flat = [(maps * whole).flatten(-2) for maps in (one, other)]
        cosine = torch.cosine_similarity(flat[0], flat[1], dim=-1)
        return torch.stack([cosine, _mean(_js_distance(one, other), self.real)], -1)


def _mean(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The mean of `values` [B, heads, L] over the `rows` [B, 1, L] that are 1; NaN without any."""
    return (values * rows).sum(-1) / rows.sum(-1)


def _js_distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """√ of the Jensen–Shannon divergence, base 2, of each row's two distributions [B, heads, L]."""
    mixture, *alone = (torch.special.entr(maps).sum(-1) for maps in ((one + other) / 2, one, other))
    divergence = mixture - (alone[0] + alone[1]) / 2
    return (divergence.clamp(min=0) / math.log(2)).sqrt()


# Both models on the same batches.


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two models on the same pairs.

    `before`, `after` [pairs, layers, heads, WEIGHTS]: mean weights; `similarity` [pairs, layers, heads,
    SIMILARITIES]; `pairs_with_terms`: the number of pairs with a common word.
    """

    pairs: Sequence[Pair]
    pairs_with_terms: int
    before: FloatArray
    after: FloatArray
    similarity: FloatArray

    def weight(self, when: str, name: str) -> FloatArray:
        """One of WEIGHTS `before` or `after`, means by query [queries, layers, heads]."""
        return self._by_query(getattr(self, when)[..., WEIGHTS.index(name)])

    def change(self, name: str) -> FloatArray:
        """One of WEIGHTS, after less before, means by query [queries, layers, heads]."""
        return self.weight("after", name) - self.weight("before", name)

    def similarity_of(self, name: str) -> FloatArray:
        """One of SIMILARITIES, means by query [queries, layers, heads]."""
        return self._by_query(self.similarity[..., SIMILARITIES.index(name)])

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
    """Compare both models on the same batches, with the tokens of `scorer`, the tuned model.

    Heads that were pruned from it are NaN.
    """
    texts = [(pair.query, pair.title) for pair in pairs]
    terms = [shared_terms(*text, segmenter) for text in texts]
    parts, rows = [], []
    for batch in scorer.fresh().batches(texts, batch_tokens(), offsets=True):
        linked = [
            links(encoded, terms[row].values(), causal=base.family.causal)
            for row, encoded in zip(batch.rows, batch.encoded, strict=True)
        ]
        parts.append(_of_both(base, scorer.encoder, batch, TokenMasks.of(batch, linked)))
        rows.append(batch.rows)
        shown.advance(len(batch))
    values = np.concatenate(parts)[np.argsort(np.concatenate(rows))]
    scorer.checkpoint.shape.blank(values)
    before, after, similarity = np.split(values, [len(WEIGHTS), 2 * len(WEIGHTS)], axis=-1)
    return Comparison(pairs, sum(map(bool, terms)), before, after, similarity)


def maps_of(encoder: Encoder, batch: Batch) -> torch.Tensor:
    """The attention of every head on one batch [B, layers, heads, L, L], in float32."""
    layers = tuple(range(len(encoder.layers)))
    whole = Reduction("maps", "attention", layers, lambda view: view.values)
    (swept,) = sweep(encoder, [batch], [NONE], [whole])
    return torch.from_numpy(swept.reduced["maps"][0])


def _of_both(base: Encoder, encoder: Encoder, batch: Batch, masks: TokenMasks) -> FloatArray:
    """Weights before, weights after and similarities on one batch [B, layers, heads, 4 + 4 + 2]."""
    earlier = maps_of(base, batch)

    def both(view: View) -> torch.Tensor:
        before, after = earlier[:, view.layer], view.values.float().cpu()
        parts = masks.weights(before), masks.weights(after), masks.similarity(before, after)
        return torch.cat(parts, dim=-1)

    layers = tuple(range(len(encoder.layers)))
    (swept,) = sweep(encoder, [batch], [NONE], [Reduction("both", "attention", layers, both)])
    return np.asarray(swept.reduced["both"][0], np.float64)
