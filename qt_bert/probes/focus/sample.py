"""Pairs that can show a focus: some of their characters, and not all, belong to matched terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter
from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.probes.focus.terms import MATCHED, OTHER, kinds_of
from qt_bert.probes.streams import characters_of, coverage
from qt_bert.scoring.bulk import Scorer


@dataclass(frozen=True)
class Partial:
    """Those of some pairs that are partly matched; how many of the rest match nowhere, or throughout.

    `coverage` is the share of the texts' Chinese characters that are tokens of their own.
    """

    pairs: list[Pair]
    none: int
    all: int
    coverage: float

    def describe(self) -> dict[str, float]:
        """For the settings of a result."""
        return {
            "pairs": len(self.pairs),
            "none_matched": self.none,
            "all_matched": self.all,
            "coverage": self.coverage,
        }


def partly_matched(pairs: Sequence[Pair], scorer: Scorer, segmenter: Segmenter) -> Partial:
    """Take the pairs apart as the model reads them, what is cut off left out."""
    texts = [(pair.query, pair.title) for pair in pairs]
    kept, none, every, seen = [], 0, 0, 0
    encodings = scorer.tokenizer.encode(texts)
    for pair, both, encoded in zip(pairs, texts, encodings, strict=True):
        kinds = kinds_of(encoded, *both, segmenter)
        matched, other = np.isin(kinds, MATCHED).any(), np.isin(kinds, OTHER).any()
        if matched and other:
            kept.append(pair)
        elif matched:
            every += 1
        else:
            none += 1
        seen += sum(len(characters_of(encoded, *both, side)) for side in (QUERY, TITLE))
    return Partial(kept, none, every, coverage([text for both in texts for text in both], seen))
