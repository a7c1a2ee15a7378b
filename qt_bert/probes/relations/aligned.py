"""Spans of query and title that mean the same in other words, and spans as long that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.probes.matching_cells import Aligned, alignments
from qt_bert.probes.relations.links import UNLINKED, Link, Links, links_of, tokens_of
from qt_bert.probes.streams import is_punctuation

ALIGNED = "aligned"
"""The relation of two spans with one meaning."""


def aligned_links(
    tokenizer: PairTokenizer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    *,
    most: int,
    seed: int,
    limit: int | None = None,
) -> Links:
    """The aligned spans of those of `pairs` that ship, and unlinked ones of the same two texts.

    At most `limit` pairs are drawn. All spans, linked or not, begin and end where words do and hold
    no punctuation or white space; two that share a character are left out: matching heads answer
    for these. Unlinked ones are as long, and do not both meet the spans of one alignment. A unit is
    a query.
    """
    known = alignments()
    found = [pair for pair in pairs if (pair.query, pair.title) in known]
    if limit is not None:
        found = spread_over_queries(found, limit, seed)
    texts = [(pair.query, pair.title) for pair in found]
    queries = {query: number for number, query in enumerate(dict.fromkeys(q for q, _ in texts))}
    encoded = tokenizer.encode(texts) if texts else []
    links = (
        link
        for number, (pair, tokens) in enumerate(zip(texts, encoded, strict=True))
        for link in _links(number, queries[pair[0]], pair, known[pair], tokens, segmenter)
    )
    return links_of(texts, len(queries), links, relations=(ALIGNED,), most=most, seed=seed)


def _links(
    number: int,
    unit: int,
    pair: tuple[str, str],
    aligned: Sequence[Aligned],
    encoded: EncodedPair,
    segmenter: Segmenter,
) -> Iterator[Link]:
    spans = {((one.q_start, one.q_end), (one.t_start, one.t_end)) for one in aligned}
    edges = [_edges(text, segmenter) for text in pair]
    wanted = {one for one in spans if _whole(one, edges) and _comparable(pair, *one)}
    other: dict[tuple[Span, Span], None] = {}
    for query, title in sorted(wanted):
        for both in product(_as_long(query, edges[0]), _as_long(title, edges[1])):
            apart = not any(_meet(both[0], one[0]) and _meet(both[1], one[1]) for one in spans)
            if apart and _comparable(pair, *both):
                other[both] = None
    for relation, those in ((ALIGNED, sorted(wanted)), (UNLINKED, list(other))):
        for query, title in those:
            first = tokens_of(encoded, QUERY, *query)
            second = tokens_of(encoded, TITLE, *title)
            if first is not None and second is not None:
                lengths = query[1] - query[0], title[1] - title[0]
                yield Link(number, unit, first, second, relation, (number, *lengths))


def _edges(text: str, segmenter: Segmenter) -> set[int]:
    return {edge for span in segmenter.spans(text) for edge in span}


def _as_long(span: Span, edges: set[int]) -> list[Span]:
    """Spans of this length that begin and end at `edges`."""
    length = span[1] - span[0]
    return [(start, start + length) for start in sorted(edges) if start + length in edges]


def _whole(spans: tuple[Span, Span], edges: Sequence[set[int]]) -> bool:
    """Whether both spans begin and end at the `edges` of their text."""
    return all(known.issuperset(span) for span, known in zip(spans, edges, strict=True))


def _comparable(pair: tuple[str, str], query: Span, title: Span) -> bool:
    """Whether neither span has punctuation or white space, and they share no character."""
    first, second = pair[0][slice(*query)].casefold(), pair[1][slice(*title)].casefold()
    plain = not any(one.isspace() or is_punctuation(one) for one in first + second)
    return plain and set(first).isdisjoint(second)


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
