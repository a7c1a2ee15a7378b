"""Terms that stand in both texts of a pair, and the tokens that spell them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qt_bert.evaluation.arrays import BoolArray
from qt_bert.pairs.segmenters import Segmenter, Span
from qt_bert.pairs.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.probes.term_matching.stop import is_content_word


class Term(NamedTuple):
    """One term of the query and one equal to it of the title, as characters [start, end)."""

    query: Span
    title: Span


def matched_terms(query: str, title: str, segmenter: Segmenter) -> list[Term]:
    """Every place of a word of the query with every place of the same word of the title.

    Words are whole to the segmenter in both texts; case does not count; function words and
    punctuation are left out.
    """
    places: dict[str, list[Span]] = {}
    for start, end in segmenter.spans(title):
        places.setdefault(title[start:end].casefold(), []).append((start, end))
    return [
        Term((start, end), there)
        for start, end in segmenter.spans(query)
        if is_content_word(query[start:end])
        for there in places.get(query[start:end].casefold(), ())
    ]


def links(encoded: EncodedPair, terms: list[Term]) -> BoolArray:
    """[tokens, tokens]: whether two tokens lie within the same term, one in each text.

    A token that reaches over a term's edge belongs to none. The pair must have been encoded with
    offsets.
    """
    linked = np.zeros((len(encoded), len(encoded)), np.bool_)
    for term in terms:
        rows = _within(encoded, QUERY, term.query)
        columns = _within(encoded, TITLE, term.title)
        linked[np.ix_(rows, columns)] = True
    return linked | linked.T


def _within(encoded: EncodedPair, side: int, span: Span) -> list[int]:
    """The tokens of one side that lie within `span`."""
    return [
        token
        for token, (owner, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True))
        if owner == side and span[0] <= start < end <= span[1] and not _is_marker(encoded, token)
    ]


def _is_marker(encoded: EncodedPair, token: int) -> bool:
    """Whether it spells nothing: SentencePiece's `▁` is given the first character of what follows."""
    after = token + 1
    return (
        after < len(encoded)
        and encoded.side[after] == encoded.side[token]
        and encoded.spans[after][0] == encoded.spans[token][0]
    )
