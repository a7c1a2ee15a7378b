"""Pairs as tokens for many threads at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qt_bert.pairs import PairTokenizer
from qt_bert.pairs.tokenise import EncodedPair


@dataclass(frozen=True, slots=True)
class ReadPair(EncodedPair):
    """An encoded pair with spans, and its texts."""

    query: str
    title: str

    @classmethod
    def of(cls, encoded: EncodedPair, query: str, title: str) -> ReadPair:
        """`encoded` with the texts that it was made of."""
        fields = {name: getattr(encoded, name) for name in EncodedPair.__slots__}
        return cls(**fields, query=query, title=title)


class LockedTokenizer(PairTokenizer):
    """A tokenizer that serves one thread at a time."""

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        super().__init__(tokenizer, max_length)
        self._lock = threading.Lock()

    def encode(
        self, pairs: Sequence[tuple[str, str]], *, offsets: bool = True
    ) -> list[EncodedPair]:
        """As `PairTokenizer.encode`."""
        with self._lock:
            return super().encode(pairs, offsets=offsets)
