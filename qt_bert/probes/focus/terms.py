"""What each token of a pair is: part of a term that stands in both texts, another character, a mark."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.probes.streams import is_marker, shared_terms
from qt_bert.stats.arrays import IntArray


class Kind(IntEnum):
    """What a token is. Characters hold a letter or digit; marks, of either text, spell none.

    Marks are punctuation, and the `▁` by which SentencePiece begins a word.
    """

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


def kinds_of(encoded: EncodedPair, query: str, title: str, segmenter: Segmenter) -> IntArray:
    """The `Kind` of each token [L]; a token is matched where it lies within one matched term.

    The pair must have been encoded with offsets.
    """
    texts, shared = (query, title), shared_terms(query, title, segmenter).values()
    spans = [[span for term in shared for span in term[side]] for side in (QUERY, TITLE)]
    kinds = np.full(len(encoded), Kind.SEPARATOR, np.int64)
    kinds[encoded.cls] = Kind.ITSELF
    for token, (side, span) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side != SPECIAL:
            spelled = "" if is_marker(encoded, token) else texts[side][slice(*span)]
            kinds[token] = _kind(spelled, spans[side], span, in_query=side == QUERY)
    return kinds


def _kind(spelled: str, terms: Sequence[Span], span: Span, *, in_query: bool) -> Kind:
    start, end = span
    if not any(map(str.isalnum, spelled)):
        return Kind.QUERY_MARK if in_query else Kind.TITLE_MARK
    if any(first <= start and end <= last for first, last in terms):
        return Kind.QUERY_MATCHED if in_query else Kind.TITLE_MATCHED
    return Kind.QUERY_OTHER if in_query else Kind.TITLE_OTHER
