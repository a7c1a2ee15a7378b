"""What each token of a twin is, and patches at the tokens of one class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

import torch

from qt_bert.ablation.patching import Places
from qt_bert.encoder.batches import Batch
from qt_bert.pairs.tokenise import QUERY, SPECIAL, EncodedPair


class TokenClass(IntEnum):
    """The term stands at TERM in the query and at SLOT in the title; all else is the rest."""

    CLS = 0
    TERM = 1
    QUERY_REST = 2
    SLOT = 3
    TITLE_REST = 4
    SEPARATOR = 5


@dataclass(frozen=True, slots=True)
class TwinText(EncodedPair):
    """One of two twins; `classes` holds the `TokenClass` of each token, the same in both."""

    classes: list[int]


def classes_of(encoded: EncodedPair, term: Iterable[int], slot: Iterable[int]) -> list[int]:
    """The class of each token, where the term stands at these tokens of the query and the title."""
    in_query, in_title = set(term), set(slot)

    def kind(token: int, side: int) -> TokenClass:
        if side == SPECIAL:
            return TokenClass.CLS if token == encoded.cls else TokenClass.SEPARATOR
        if side == QUERY:
            return TokenClass.TERM if token in in_query else TokenClass.QUERY_REST
        return TokenClass.SLOT if token in in_title else TokenClass.TITLE_REST

    return [kind(token, side) for token, side in enumerate(encoded.side)]


def places_of(kind: TokenClass) -> Places:
    """The tokens of one class; the batches must be made of `TwinText`."""

    def of(batch: Batch) -> torch.Tensor:
        found = torch.zeros_like(batch.groups, dtype=torch.bool)
        for row, text in enumerate(batch.encoded):
            classes = torch.tensor(cast(TwinText, text).classes, device=found.device)
            found[row, : len(classes)] = classes == kind
        return found

    return Places(kind.name.lower(), of)
