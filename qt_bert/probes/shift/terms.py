"""The tokens that spell a term that stands in both texts of a pair."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.data.segmenters import Span
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.probes.streams import Shared, is_marker
from qt_bert.stats.arrays import BoolArray


def links(encoded: EncodedPair, terms: Iterable[Shared]) -> BoolArray:
    """[tokens, tokens]: whether two tokens lie within the same term, one in each text.

    A token that reaches over a term's edge belongs to none. The pair must have been encoded with
    offsets.
    """
    linked = np.zeros((len(encoded), len(encoded)), np.bool_)
    for term in terms:
        rows = [token for span in term.query for token in tokens_within(encoded, QUERY, span)]
        columns = [token for span in term.title for token in tokens_within(encoded, TITLE, span)]
        linked[np.ix_(rows, columns)] = True
    return linked | linked.T


def tokens_within(encoded: EncodedPair, side: int, span: Span) -> list[int]:
    """The tokens of one side that lie within `span` of its text; the pair must have its offsets."""
    return [
        token
        for token, (owner, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True))
        if owner == side and span[0] <= start < end <= span[1] and not is_marker(encoded, token)
    ]
