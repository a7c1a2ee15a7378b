"""The interactive LSTM matcher (ESIM: Chen et al. 2017, "Enhanced LSTM for Natural Language Inference").

Token vectors, trained from random; an LSTM in both directions reads each text; every token of the one
is aligned with a weighted mean of the other's; what differs is composed by a second LSTM, pooled by
mean and maximum, and joined. The source of the comparison (heads_of_query_title_bert, section 1) names
its matcher "LSTM-Attention" and says no more; ESIM is the standard one of that kind.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.encoder.architectures.bilstm import BiLstm
from qt_bert.encoder.architectures.model import PairConfig, PairModel
from qt_bert.encoder.architectures.texts import Side, Texts


class Matcher(nn.Module):
    """Two sides → the matcher's features of each pair [B, size]."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        size = config.matcher_size
        self.embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.reading = BiLstm(size, size)
        self.enhanced = nn.Linear(8 * size, size)
        self.composing = BiLstm(size, size)
        self.joined = nn.Linear(8 * size, size)

    def forward(self, query: Side, title: Side) -> torch.Tensor:
        a, b = (self.reading(self.embeddings(one.ids), one.lengths) for one in (query, title))
        to_query, to_title = aligned(a, b, query.real, title.real)
        both = [self._composed(query, a, to_query), self._composed(title, b, to_title)]
        return torch.tanh(self.joined(torch.cat(both, -1)))

    def _composed(self, side: Side, own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Mean and maximum over a text's tokens of what they are beside what they align with."""
        enhanced = self.enhanced(torch.cat([own, other, own - other, own * other], -1))
        return pooled(self.composing(F.relu(enhanced), side.lengths), side.real)


class LstmAttention(PairModel):
    """Features of a pair: the matcher's [B, size]."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__(config)
        self.matcher = Matcher(config)
        self._add_classifier(config.matcher_size)

    def features(self, texts: Texts) -> torch.Tensor:
        return texts.matched(self.matcher)


def aligned(
    a: torch.Tensor, b: torch.Tensor, real_a: torch.Tensor, real_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Soft alignment: for each token of `a` [B, n, w] a mean of `b` [B, m, w], and the other way.

    Weights are softmax(a·bᵀ) over the other text's real tokens, as in ESIM without a scale.
    """
    scores = torch.matmul(a, b.transpose(1, 2)).float()
    lowest = torch.finfo(scores.dtype).min
    to_b = scores.masked_fill(~real_b[:, None], lowest).softmax(-1).to(a.dtype)
    to_a = scores.masked_fill(~real_a[..., None], lowest).softmax(1).to(a.dtype)
    return torch.matmul(to_b, b), torch.matmul(to_a.transpose(1, 2), a)


def pooled(tokens: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """[mean; maximum] over the real tokens of [B, L, w], which are 0 at padding."""
    mean = tokens.sum(1) / real.sum(1, keepdim=True)
    most = tokens.masked_fill(~real[..., None], torch.finfo(tokens.dtype).min).amax(1)
    return torch.cat([mean.to(tokens.dtype), most], -1)
