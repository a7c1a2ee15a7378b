"""Two towers: one encoder reads query and title apart; they meet in four products of their vectors.

As Sentence-BERT's classification objective (Reimers & Gurevych 2019, section 3: u, v, |u − v|), with
the product u·v of InferSent (Conneau et al. 2017) beside it. A text's vector is that of its [CLS],
which is also what the cross-encoder's output reads.
"""

from __future__ import annotations

import torch

from qt_bert.encoder.architectures.model import PairConfig, PairModel
from qt_bert.encoder.architectures.texts import Texts

COMPARED = 4
"""Vectors that `compared` joins."""


class TwoTower(PairModel):
    """Features of a pair: the two texts' [CLS] vectors, compared [B, 4 × hidden]."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__(config)
        self._add_classifier(COMPARED * self._add_encoder())

    def features(self, texts: Texts) -> torch.Tensor:
        return compared(*texts.first_tokens())


def compared(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """[u; v; |u − v|; u·v] of vectors [B, width]."""
    return torch.cat([u, v, (u - v).abs(), u * v], -1)
