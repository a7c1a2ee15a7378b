"""Sums of attention by query over a sample of pairs, and over the same cells of replaced queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from qt_bert.ablation.reduction import Reduction
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.probes.common.characters import QUERY, TITLE, characters_of, coverage
from qt_bert.probes.common.streams import stream
from qt_bert.probes.term_matching.attention import CellSums
from qt_bert.probes.term_matching.cells import CHARACTERS, KINDS, SYNONYMS, TERMS, Cells, cells_of
from qt_bert.probes.term_matching.replacement import Replacements, query_tokens
from qt_bert.probes.term_matching.synonyms import alignments
from qt_bert.progress import Progress
from qt_bert.scoring.bulk import Scorer

SINK_FREE_KIND = len(KINDS)
"""Characters once more, in attention between the two texts alone."""

PAIRS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the pairs of each query; kinds are `KINDS` and `SINK_FREE_KIND`.

    `original` and `replaced` [queries, kinds, layers, heads, directions, own and other] of
    attention, the latter a mean over draws; `counts` [queries, kinds, directions, own and other] of
    cells; `rows` [queries, kinds, directions] of rows.
    """

    original: FloatArray
    replaced: FloatArray
    counts: FloatArray
    rows: FloatArray

    @property
    def n_queries(self) -> int:
        """How many queries have something to match."""
        return len(self.counts)


@dataclass(frozen=True)
class Sample:
    """What of a sample was used: `nothing_shared` and `no_replacement` count pairs left out.

    `coverage` is the share of Chinese characters that are a token of their own; `draws` the mean
    number of replaced queries a pair.
    """

    pairs: int
    used: int
    queries: int
    nothing_shared: int
    no_replacement: int
    coverage: float
    draws: float


@dataclass(frozen=True, eq=False)
class _Ready:
    """A pair with something to match, and the queries that replace its own."""

    query: str
    title: str
    cells: Cells
    replaced: list[str]

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(query, self.title) for query in (self.query, *self.replaced)]


def sums_of(
    scorer: Scorer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    queries: Iterable[str],
    *,
    draws: int,
    seed: int,
    shown: Progress,
) -> tuple[Sums, Sample]:
    """Run the pairs, and each with up to `draws` other queries; no query where nothing is shared."""
    ready, sample = _prepared(scorer, pairs, segmenter, queries, draws, seed)
    numbers: dict[str, int] = {}
    index = [numbers.setdefault(one.query, len(numbers)) for one in ready]
    encoder, kinds = scorer.encoder, len(KINDS) + 1
    shape = (len(numbers), kinds, len(encoder.layers), encoder.layers[0].heads, 2, 2)
    original, replaced = np.zeros(shape), np.zeros(shape)
    counts, rows = np.zeros((len(numbers), kinds, 2, 2)), np.zeros((len(numbers), kinds, 2))
    done = 0
    for chunk in _chunks(ready):
        for one, (own, others) in zip(chunk, _attention(scorer, chunk, shown), strict=True):
            query = index[done]
            original[query] += own
            replaced[query] += others
            counts[query] += _with_sink_free(one.cells.counts)
            rows[query] += _with_sink_free(one.cells.rows)
            done += 1
    return Sums(original, replaced, counts, rows), sample


def _prepared(
    scorer: Scorer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    queries: Iterable[str],
    draws: int,
    seed: int,
) -> tuple[list[_Ready], Sample]:
    """The pairs with something to match and a replacement, and what was left out."""
    encoded = scorer.tokenizer.encode([(pair.query, pair.title) for pair in pairs])
    replacements, spans = Replacements(scorer.tokenizer, queries), alignments()
    ready: list[_Ready] = []
    without, seen = 0, 0
    for place, (pair, one) in enumerate(zip(pairs, encoded, strict=True)):
        query, title = pair.query, pair.title
        seen += sum(len(characters_of(one, query, title, side)) for side in (QUERY, TITLE))
        cells = cells_of(one, query, title, segmenter, spans.get((query, title), ()))
        if not cells.speak_of(CHARACTERS, TERMS, SYNONYMS):
            without += 1
            continue
        replaced = replacements.draw(title, query_tokens(one), draws, (seed, place))
        if replaced:
            ready.append(_Ready(query, title, cells, replaced))
    return ready, Sample(
        pairs=len(pairs),
        used=len(ready),
        queries=len({one.query for one in ready}),
        nothing_shared=without,
        no_replacement=len(pairs) - without - len(ready),
        coverage=coverage([text for pair in pairs for text in (pair.query, pair.title)], seen),
        draws=float(np.mean([len(one.replaced) for one in ready])) if ready else 0.0,
    )


def _attention(
    scorer: Scorer, chunk: Sequence[_Ready], shown: Progress
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Of each pair, the sums [kinds, layers, heads, directions, 2], and the mean replaced ones."""
    texts = [text for one in chunk for text in one.texts]
    cells = [one.cells for one in chunk for _ in one.texts]
    layers = tuple(range(len(scorer.encoder.layers)))
    reduction = Reduction("cells", "attention", layers, CellSums(cells))
    found = stream(scorer, texts, [reduction], shown=shown)["cells"][0].astype(np.float64)
    found = np.moveaxis(found.reshape(*found.shape[:3], len(KINDS) + 1, 2, 2), 3, 1)
    start = 0
    for one in chunk:
        end = start + len(one.texts)
        yield found[start], found[start + 1 : end].mean(0)
        start = end


def _chunks(ready: Sequence[_Ready]) -> Iterator[list[_Ready]]:
    left = iter(ready)
    while chunk := list(islice(left, PAIRS_AT_ONCE)):
        yield chunk


def _with_sink_free(values: FloatArray) -> FloatArray:
    """The characters' entry once more behind those of all kinds."""
    return np.concatenate([values, values[CHARACTERS : CHARACTERS + 1]])
