"""How strongly each head matches terms, relative to pairs with nothing to match.

The *matched weight* is the attention of a row to its own term in the other text, a ratio of sums over the
sample. A head's score is its matched weight less that of the same rows and columns with the query replaced by
one of the same half that shares no character with the title, so that a head of a fixed offset has 0. It is
taken in the better direction, among the directions in which the head gives the other text enough
attention, or both if it does so in none.

`heads_of_query_title_bert`, 2.4, chose such heads by eye.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import Half, spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.heads import Head
from qt_bert.models.batches import Batch
from qt_bert.probes.base import Context
from qt_bert.probes.matching_cells import (
    DRAWS,
    OWN,
    Cells,
    Replacements,
    cells_of,
    query_tokens,
)
from qt_bert.probes.naming import (
    LEAST_WEIGHT,
    Elsewhere,
    Named,
    Rule,
    among,
    mask_of,
    name_heads,
    one_sided_p,
    ranked,
    stability,
)
from qt_bert.probes.streams import characters_of, coverage, stream
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, pooled
from qt_bert.stats.judgements import index_queries
from qt_bert.text import Text

K = 5
"""The article's number of heads."""
QUICK_PAIRS = 80
LEAST_SCORE = 0.05
"""The declared minimum effect: the least score of a named head, a share of attention."""
PAIRS_AT_ONCE = 256
CACHED = 4
CHANNELS = 4
"""Of cells: two directions, own and other."""


# Sums of attention over cells.


class CellSums:
    """Sums attention over the cells of each channel [B, heads, CHANNELS]; `cells` by row of the stream."""

    def __init__(self, cells: Sequence[Cells]) -> None:
        self._cells = cells
        self._batch: Batch | None = None

    def __call__(self, view: View) -> torch.Tensor:
        if self._batch is not view.batch:
            self._batch = view.batch
            self._masks = self._masks_of(view.batch).to(view.values.device)
        return view.values.float().flatten(2) @ self._masks.flatten(2).transpose(1, 2)

    def _masks_of(self, batch: Batch) -> torch.Tensor:
        """1 in the cells of each channel [B, CHANNELS, L, L]."""
        length = batch.input_ids.shape[1]
        masks = torch.zeros(len(batch), CHANNELS, length, length)
        for place, row in enumerate(batch.rows):
            cells = self._cells[row]
            at = (cells.channel, cells.row, cells.column)
            masks[place][tuple(torch.from_numpy(axis).long() for axis in at)] = 1
        return masks


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the pairs of each query.

    Attention: `original` and `replaced` (mean over draws) [queries, layers, heads, directions, own and
    other]; numbers of cells: `counts` [queries, directions, own and other]; numbers of rows: `rows`
    [queries, directions].
    """

    original: FloatArray
    replaced: FloatArray
    counts: FloatArray
    rows: FloatArray

    @property
    def n_queries(self) -> int:
        """The number of queries with something to match."""
        return len(self.counts)


@dataclass(frozen=True)
class Sample:
    """The used part of a sample: `nothing_shared` and `no_replacement` count pairs left out.

    `coverage`: the share of Chinese characters that are tokens of their own; `draws`: the mean number of
    replacements of a pair's query.
    """

    pairs: int
    used: int
    queries: int
    nothing_shared: int
    no_replacement: int
    coverage: float
    draws: float


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A pair with something to match, and the queries that replace its own."""

    query: str
    title: str
    cells: Cells
    replaced: list[str]

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(query, self.title) for query in (self.query, *self.replaced)]


def _prepared(
    scorer: Scorer, pairs: Sequence[Pair], queries: Iterable[str], seed: int
) -> tuple[list[_Prepared], Sample]:
    """The pairs with something to match and a replacement, and the used part of the sample."""
    encoded = scorer.tokenizer.encode([(pair.query, pair.title) for pair in pairs])
    replacements = Replacements(scorer.tokenizer, queries)
    causal = scorer.checkpoint.family.causal
    ready: list[_Prepared] = []
    without, seen = 0, 0
    for place, (pair, tokens) in enumerate(zip(pairs, encoded, strict=True)):
        query, title = pair.query, pair.title
        seen += sum(len(characters_of(tokens, query, title, side)) for side in (QUERY, TITLE))
        cells = cells_of(tokens, query, title, causal=causal)
        if not cells.comparable:
            without += 1
            continue
        replaced = replacements.draw(title, query_tokens(tokens), DRAWS, (seed, place))
        if replaced:
            ready.append(_Prepared(query, title, cells, replaced))
    return ready, Sample(
        pairs=len(pairs),
        used=len(ready),
        queries=index_queries([pair.query for pair in ready])[1],
        nothing_shared=without,
        no_replacement=len(pairs) - without - len(ready),
        coverage=coverage([text for pair in pairs for text in (pair.query, pair.title)], seen),
        draws=float(np.mean([len(pair.replaced) for pair in ready])) if ready else 0.0,
    )


def _attention(
    scorer: Scorer, chunk: Sequence[_Prepared], shown: Progress
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Each pair's sums [layers, heads, directions, 2], and their mean over its replacements."""
    texts = [text for pair in chunk for text in pair.texts]
    cells = [pair.cells for pair in chunk for _ in pair.texts]
    layers = tuple(range(len(scorer.encoder.layers)))
    reduction = Reduction("cells", "attention", layers, CellSums(cells))
    sums = stream(scorer, texts, [reduction], shown=shown)["cells"][0].astype(np.float64)
    sums = sums.reshape(*sums.shape[:3], 2, 2)
    start = 0
    for pair in chunk:
        end = start + len(pair.texts)
        yield sums[start], sums[start + 1 : end].mean(0)
        start = end


# Scores.


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores over one sample of pairs. Arrays are [..., layers, heads, directions]."""

    sums: Sums
    sample: Sample

    def excess(self) -> FloatArray:
        """Matched weight less the replaced queries' [layers, heads, directions]; NaN without such rows."""
        return np.asarray(self._excess(np.ones((1, self.sums.n_queries)))[0])

    @cached_property
    def score(self) -> FloatArray:
        """The excess in the better direction [layers, heads]; NaN without one."""
        return along(self.direction, self.excess())

    @cached_property
    def direction(self) -> IntArray:
        """The better direction [layers, heads]."""
        return self._better(self.excess())

    @cached_property
    def weight(self) -> FloatArray:
        """The attention of matched rows to the other text [layers, heads, directions]; 0 without."""
        attention = self.sums.original.sum(-1).sum(0)
        return np.nan_to_num(ratio(attention, self.sums.rows.sum(0)))

    @cached_property
    def matched_weight(self) -> FloatArray:
        """The attention of matched rows to their own character in the other text, likewise; NaN without."""
        sums = self.sums
        return ratio(sums.original[..., OWN].sum(0), sums.rows.sum(0))

    def by_query(self) -> FloatArray:
        """The excess of each query [queries, layers, heads, directions]."""
        return ratio(self._more(), self.sums.rows[:, None, None])

    @cached_property
    def tested(self) -> Named:
        """Scores, p and q of every head in its better direction; q over both directions of all heads."""
        known = self.sums.n_queries > 1
        p = one_sided_p(self.by_query()) if known else np.ones_like(self.excess())
        weight = along(self.direction, self.weight)
        return name_heads(self.score, p, weight, least=LEAST_SCORE, choice=self.direction)

    def named(self) -> list[Head]:
        """Heads with a score ≥ LEAST_SCORE, q < 0.05 and enough weight in that direction, best first."""
        return self.tested.heads()

    def best(self, k: int, within: Iterable[Head] | None = None) -> list[Head]:
        """The k best heads by score; heads with too little weight on the other text come last."""
        allowed = None if within is None else set(within)
        order = sorted(ranked(self.score), key=lambda head: not self._heavy[head])
        known = (head for head in order if np.isfinite(self.score[head]))
        return [head for head in known if allowed is None or head in allowed][:k]

    @property
    def rule(self) -> Rule:
        """The rule of `best`, for any weights of the queries."""

        def score(weights: FloatArray) -> FloatArray:
            excess = self._excess(weights)
            score = along(self._better(excess), excess)
            return np.where(self._heavy, score, score - 2)  # too light: last, in the same order

        return score

    @property
    def eligible(self) -> list[Head]:
        """The heads with enough weight on the other text."""
        return [Head(int(layer), int(head)) for layer, head in np.argwhere(self._heavy)]

    def estimate(self, head: Head, direction: int) -> Estimate:
        """The excess of one head in one direction, over its queries."""
        more, rows = self._more(), self.sums.rows
        return pooled(more[:, *head, direction], rows[:, direction], range(len(rows)))

    @cached_property
    def _usable(self) -> BoolArray:
        """Directions with enough weight on the other text [layers, heads, directions]."""
        return np.asarray((self.weight >= LEAST_WEIGHT) & np.isfinite(self.excess()))

    @cached_property
    def _heavy(self) -> BoolArray:
        """Heads with enough weight in any direction [layers, heads]."""
        return np.asarray(self._usable.any(axis=-1))

    def _better(self, excess: FloatArray) -> IntArray:
        """The direction of the larger excess among the usable ones, or among both without any."""
        allowed = np.isfinite(excess) & (self._usable | ~self._heavy[..., None])
        return np.asarray(np.where(allowed, excess, -np.inf).argmax(axis=-1))

    def _more(self) -> FloatArray:
        """Sums of the excess by query [queries, layers, heads, directions]."""
        sums = self.sums
        return np.asarray(sums.original[..., OWN] - sums.replaced[..., OWN])

    def _excess(self, weights: FloatArray) -> FloatArray:
        """The excess under each row of query weights [R, layers, heads, directions]."""
        rows = np.tensordot(weights, self.sums.rows, 1)[:, None, None]
        return ratio(np.tensordot(weights, self._more(), 1), rows)


def along(direction: IntArray, values: FloatArray) -> FloatArray:
    """`values` [layers, heads, directions] in each head's `direction` [layers, heads]."""
    return np.asarray(np.take_along_axis(values, direction[..., None], axis=-1)[..., 0])


def score_heads(
    scorer: Scorer,
    pairs: Sequence[Pair],
    queries: Iterable[str],
    *,
    seed: int = 0,
    shown: Progress = silent,
) -> Scores:
    """Score every head of a model on `pairs`, with up to DRAWS replacements from `queries` each.

    `shown` counts texts, at most DRAWS + 1 a pair. The score is NaN for pruned heads, and for every head
    without a pair that has a term to match and a replacement.
    """
    ready, sample = _prepared(scorer, pairs, queries, seed)
    index, n_queries = index_queries([pair.query for pair in ready])
    layers = scorer.encoder.layers
    shape = (n_queries, len(layers), layers[0].heads, 2, 2)
    original, replaced = np.zeros(shape), np.zeros(shape)
    counts, rows = np.zeros((n_queries, 2, 2)), np.zeros((n_queries, 2))
    for start in range(0, len(ready), PAIRS_AT_ONCE):
        chunk = ready[start : start + PAIRS_AT_ONCE]
        sums = _attention(scorer, chunk, shown)
        for query, pair, (clean, control) in zip(index[start:], chunk, sums, strict=False):
            original[query] += clean
            replaced[query] += control
            counts[query] += pair.cells.counts
            rows[query] += pair.cells.rows
    scorer.checkpoint.shape.blank(original)
    return Scores(Sums(original, replaced, counts, rows), sample)


def discovery_scores(context: Context) -> Scores:
    """The scores by which heads are chosen, cached by model, pairs, profile and seed."""
    key = _key(context)
    if key not in _cache:
        if len(_cache) == CACHED:
            _cache.pop(next(iter(_cache)))
        _cache[key] = scores_on(context, "discovery")
    return _cache[key]


def scores_on(context: Context, half: Half, scorer: Scorer | None = None) -> Scores:
    """Score the context's model (or `scorer`) on a half, with its queries as replacements."""
    with context.progress(None, "texts") as shown:
        return score_heads(
            scorer or context.model,
            _sample(context, half),
            _queries(context, half),
            seed=context.seed,
            shown=shown,
        )


def _sample(context: Context, half: Half) -> list[Pair]:
    """The pairs of a half on which heads are scored, by profile."""
    pairs: list[Pair] = getattr(context, half)
    return spread_over_queries(pairs, context.choose(QUICK_PAIRS, len(pairs)), context.seed)


def _queries(context: Context, half: Half) -> set[str]:
    return {pair.query for pair in getattr(context, half)}


def chosen_heads(context: Context, within: Iterable[Head] | None = None) -> list[Head]:
    """The K best matching heads by score on discovery, of all heads or those `within`.

    At most a quarter of them, without pruned ones, so that there are controls, and at least one.
    """
    scores = discovery_scores(context)
    pool = None if within is None else set(within)
    size = int(np.isfinite(scores.score).sum()) if pool is None else len(pool)
    return scores.best(min(K, max(1, size // 4)), pool)


_cache: dict[tuple[Hashable, ...], Scores] = {}


def _key(context: Context) -> tuple[Hashable, ...]:
    return (
        repr(context.model.identity()),
        context.seed,
        tuple((pair.query, pair.title) for pair in _sample(context, "discovery")),
        frozenset(_queries(context, "discovery")),
    )


def stable_matching(
    scores: Scores,
    chosen: Collection[Head],
    *,
    seed: int,
    within: Collection[Head] | None = None,
    elsewhere: Sequence[tuple[Text, Scores]] = (),
) -> Stability | None:
    """The stability of heads `chosen` as the best by `scores`, of all or those `within`.

    `elsewhere`: names of other data or another model, and the scores on it.
    """

    def rule(of: Scores) -> Rule:
        return of.rule if within is None else among(of.rule, mask_of(within, of.score.shape))

    pool = [head for head in scores.eligible if within is None or head in within]
    return stability(
        rule(scores),
        chosen,
        scores.sums.n_queries,
        pool=pool,
        elsewhere=[Elsewhere(name, rule(of), of.sums.n_queries) for name, of in elsewhere],
        seed=seed,
    )
