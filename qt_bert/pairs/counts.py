"""What was read of pairs, and what of them did not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.pairs.tokenise import EncodedPair


@dataclass
class Counts:
    """What a scorer has seen."""

    pairs: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0

    def add(self, encoded: Sequence[EncodedPair]) -> None:
        """Count `encoded`, and the texts of them that were cut."""
        self.pairs += len(encoded)
        self.truncated_titles += sum(one.title_truncated for one in encoded)
        self.truncated_queries += sum(one.query_truncated for one in encoded)
