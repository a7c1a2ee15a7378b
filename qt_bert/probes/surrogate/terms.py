"""Terms of a text, and in how many texts each stands."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.progress import Progress, silent


class Term(NamedTuple):
    """A word, its case folded, and where it stands in its text."""

    word: str
    span: Span


def terms_of(text: str, segmenter: Segmenter) -> list[Term]:
    """The words of a text that hold a letter, a Chinese character or a digit, in their order.

    Function words are terms too: their idf makes them light.
    """
    return [
        Term(text[start:end].casefold(), (start, end))
        for start, end in segmenter.spans(text)
        if any(map(str.isalnum, text[start:end]))
    ]


@dataclass(frozen=True)
class Idf:
    """Inverse document frequency as of BM25 without negative weights: ln(1 + (N − n + ½)/(n + ½)).

    `frequency` says in how many of the `documents` texts a term stands; one that is not in it stands in
    none. Robertson and Zaragoza 2009, 3.4; the 1 keeps a term of most texts above 0.
    """

    documents: int
    frequency: Mapping[str, int]

    def of(self, word: str) -> float:
        """The weight of a term."""
        found = self.frequency.get(word, 0)
        return math.log1p((self.documents - found + 0.5) / (found + 0.5))


def count_terms(
    texts: Iterable[str],
    wanted: Collection[str],
    segmenter: Segmenter,
    *,
    shown: Progress = silent,
) -> Idf:
    """Count the texts that hold each `wanted` term; others are not kept. `shown` counts texts."""
    kept, documents = frozenset(wanted), 0
    frequency: Counter[str] = Counter()
    for text in texts:
        frequency.update(kept.intersection(term.word for term in terms_of(text, segmenter)))
        documents += 1
        shown.advance(1)
    return Idf(documents, dict(frequency))
