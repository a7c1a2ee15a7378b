"""What scorers that see no attention make of a pair: BM25, and the share of the query in the title."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from qt_bert.probes.surrogate.terms import Idf, Term

K1, B = 1.2, 0.75
"""BM25's usual settings: how soon a term's count saturates, how much a title's length counts."""


def bm25(query: Sequence[Term], title: Sequence[Term], idf: Idf, mean_length: float) -> float:
    """Σ over the query's terms of idf · tf (k1 + 1) / (tf + k1 (1 − b + b · length / mean length)).

    A term that the query repeats counts each time; `mean_length` is that of titles, in terms.
    """
    counts = Counter(term.word for term in title)
    length = len(title) / mean_length if mean_length else 1.0
    damping = K1 * (1 - B + B * length)
    return sum(
        idf.of(term.word) * counts[term.word] * (K1 + 1) / (counts[term.word] + damping)
        for term in query
        if counts[term.word]
    )


def overlap(query: Sequence[Term], title: Sequence[Term]) -> float:
    """The share of the query's distinct terms that stand in the title; 0 for a query without any."""
    asked, given = ({term.word for term in text} for text in (query, title))
    return len(asked & given) / len(asked) if asked else 0.0
