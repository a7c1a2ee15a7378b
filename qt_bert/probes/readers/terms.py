"""What each token of a pair is: part of a term that stands in both texts, another character, a mark."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from qt_bert.evaluation.arrays import IntArray
from qt_bert.pairs.segmenters import Segmenter, Span
from qt_bert.pairs.tokenise import QUERY, SPECIAL, EncodedPair
from qt_bert.probes.term_matching.stop import is_content_word


class Kind(IntEnum):
    """What a token is. Characters hold a letter or digit; marks, of either text, hold none."""

    QUERY_MATCHED = 0
    QUERY_OTHER = 1
    TITLE_MATCHED = 2
    TITLE_OTHER = 3
    QUERY_MARK = 4
    TITLE_MARK = 5
    SEPARATOR = 6
    ITSELF = 7


MATCHED = (Kind.QUERY_MATCHED, Kind.TITLE_MATCHED)
OTHER = (Kind.QUERY_OTHER, Kind.TITLE_OTHER)


def matched_terms(query: str, title: str, segmenter: Segmenter) -> tuple[list[Span], list[Span]]:
    """The spans, in query and title, of the segmenter's terms that stand in both; no stop words."""
    cut = [[(span, _term(text, span)) for span in segmenter.spans(text)] for text in (query, title)]
    first, second = ({term for _, term in one} for one in cut)
    shared = set(filter(is_content_word, first & second))
    in_query, in_title = ([span for span, term in one if term in shared] for one in cut)
    return in_query, in_title


def _term(text: str, span: Span) -> str:
    return text[span[0] : span[1]].casefold()


def kinds_of(encoded: EncodedPair, query: str, title: str, segmenter: Segmenter) -> IntArray:
    """The `Kind` of each token [L]; a token is matched where it lies within one matched term.

    The pair must have been encoded with offsets.
    """
    texts, terms = (query, title), matched_terms(query, title, segmenter)
    kinds = np.full(len(encoded), Kind.SEPARATOR, np.int64)
    kinds[encoded.cls] = Kind.ITSELF
    for token, (side, span) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side != SPECIAL:
            kinds[token] = _kind(texts[side], terms[side], span, in_query=side == QUERY)
    return kinds


def _kind(text: str, terms: Sequence[Span], span: Span, *, in_query: bool) -> Kind:
    start, end = span
    if not any(map(str.isalnum, text[start:end])):
        return Kind.QUERY_MARK if in_query else Kind.TITLE_MARK
    if any(first <= start and end <= last for first, last in terms):
        return Kind.QUERY_MATCHED if in_query else Kind.TITLE_MATCHED
    return Kind.QUERY_OTHER if in_query else Kind.TITLE_OTHER
