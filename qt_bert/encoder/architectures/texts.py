"""Query and title apart: each a text of its own, `[CLS] … [SEP]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from qt_bert.encoder.batches import Batch
from qt_bert.pairs.tokenise import QUERY, TITLE, EncodedPair


@dataclass(frozen=True, eq=False)
class Side:
    """One text of each of B pairs, padded on the right to L tokens.

    `ids` [B, L]; `real` [B, L] is True at tokens and False at padding. A row has two tokens at
    least: the special ones.
    """

    ids: torch.Tensor
    real: torch.Tensor

    @property
    def lengths(self) -> torch.Tensor:
        """Tokens of each row [B]."""
        return self.real.sum(-1)


Matcher = Callable[[Side, Side], torch.Tensor]
"""Queries and titles → features of the pairs [B, width]."""


class Texts(Protocol):
    """B pairs as an architecture reads them, whether they come to be scored or to be trained on."""

    def matched(self, matcher: Matcher) -> torch.Tensor:
        """What `matcher` says of queries and titles [B, width]."""
        ...

    def first_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The last hidden state of each query's and each title's [CLS], each [B, hidden]."""
        ...


@dataclass(frozen=True, eq=False)
class PaddedTexts:
    """The texts of a batch that is scored; `tower` maps a side to its [CLS] vectors [B, hidden]."""

    query: Side
    title: Side
    tower: Callable[[Side], torch.Tensor]

    @classmethod
    def of(cls, batch: Batch, tower: Callable[[Side], torch.Tensor], *, pad: int) -> PaddedTexts:
        """The texts of `batch`, cut apart; `pad` is the token id of padding."""
        queries, titles = zip(*map(apart, batch.encoded), strict=True)
        device = batch.input_ids.device
        return cls(_side(queries, pad, device), _side(titles, pad, device), tower)

    def matched(self, matcher: Matcher) -> torch.Tensor:
        return matcher(self.query, self.title)

    def first_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.tower(self.query), self.tower(self.title)


def apart(pair: EncodedPair) -> tuple[list[int], list[int]]:
    """The token ids of query and title, each between the pair's first and last special token."""
    first, last = pair.input_ids[pair.cls], pair.input_ids[pair.separators[-1]]
    both = zip(pair.input_ids, pair.side, strict=True)
    inside: tuple[list[int], list[int]] = ([], [])
    for token, side in both:
        if side in (QUERY, TITLE):
            inside[side].append(token)
    query, title = ([first, *tokens, last] for tokens in inside)
    return query, title


def _side(texts: Sequence[list[int]], pad: int, device: torch.device) -> Side:
    lengths = torch.tensor([len(text) for text in texts])
    longest = int(lengths.max())
    ids = torch.tensor([text + [pad] * (longest - len(text)) for text in texts])
    real = torch.arange(longest) < lengths[:, None]
    return Side(ids.to(device), real.to(device))
