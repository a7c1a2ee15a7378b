"""How much of every head's attention goes by place alone, on texts whose characters are shuffled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from qt_bert.ablation.loop import sweep, tokens_at_once
from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.variant import NONE
from qt_bert.encoder.batches import Batch, length_batches, to_batch
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray, IntArray, ratio
from qt_bert.pairs import Pair
from qt_bert.pairs.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.probes.common.characters import characters_of, coverage
from qt_bert.probes.common.naming import Named, by_query, name_heads, one_sided_p, ranked
from qt_bert.probes.word_order.maps import OFFSETS, Aligned, align, identity_index, offset_sums
from qt_bert.probes.word_order.texts import Moved, move_characters
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

LEAST_LIFT = 2.0
"""A head is named where a neighbour gets at least so many times what another character gets."""


@dataclass(frozen=True, eq=False)
class OrderScores:
    """Scores of every head over a sample.

    `lift` [layers, heads, offsets] and for each query [queries, layers, heads, offsets];
    `identity` and `weight` (attention to the other characters of the own text) [layers, heads].
    `ineligible` pairs have a title of which every order is the same; `compared` are those whose
    maps could be set beside each other; `coverage` is the share of Chinese characters that are
    tokens of their own in the texts as they were.
    """

    lift: FloatArray
    per_query: FloatArray
    identity: FloatArray
    weight: FloatArray
    pairs: int
    ineligible: int
    compared: int
    coverage: float

    @property
    def score(self) -> FloatArray:
        """The largest lift [layers, heads]; NaN where there is none."""
        largest = np.where(np.isnan(self.lift), -np.inf, self.lift).max(axis=-1)
        return np.where(np.isneginf(largest), np.nan, largest)

    @property
    def offset(self) -> IntArray:
        """The place in `OFFSETS` of the largest lift [layers, heads]."""
        return np.where(np.isnan(self.lift), -np.inf, self.lift).argmax(axis=-1)

    @property
    def chosen_among(self) -> FloatArray:
        """Each query's lift at the head's own offset; NaN for heads that follow characters."""
        own = np.take_along_axis(self.per_query, self.offset[None, ..., None], axis=-1)[..., 0]
        return np.where(self.identity < 0, own, np.nan)

    def named(self) -> Named:
        """Heads whose lift is at least 2, and above 1 by a test over queries, heads and offsets."""
        p = one_sided_p(self.per_query - 1.0)
        return name_heads(self.score, p, self.weight, least=LEAST_LIFT)

    def best(self, k: int) -> list[Head]:
        """The k best heads whose maps follow places; fewer where there are fewer."""
        follow_places = np.where(self.identity < 0, self.score, np.nan)
        return [head for head in ranked(follow_places) if follow_places[head] > 0][:k]


@dataclass(frozen=True)
class ShuffledPair:
    """A pair, and where the characters of its texts went; None for a query without another order."""

    pair: Pair
    title: Moved
    query: Moved | None

    @property
    def texts(self) -> list[tuple[str, str]]:
        """As it was, and shuffled."""
        query = self.query.text if self.query else self.pair.query
        return [(self.pair.query, self.pair.title), (query, self.title.text)]


def order_scores(
    scorer: Scorer, pairs: Sequence[Pair], *, seed: int, shown: Progress = silent
) -> OrderScores:
    """Look at every pair as it is and with the characters of both texts shuffled, once."""
    rng = np.random.default_rng(seed)
    drawn = [(p, move_characters(p.title, rng), move_characters(p.query, rng)) for p in pairs]
    shuffled = [ShuffledPair(pair, title, query) for pair, title, query in drawn if title]
    texts = [text for one in shuffled for text in one.texts]
    encoded = scorer.fresh().tokenizer.encode(texts) if texts else []
    numbers = _look(scorer, shuffled, encoded, shown)
    sums, identity = np.split(numbers, [-1], axis=-1)
    sums, identity = sums.reshape(*numbers.shape[:3], len(OFFSETS) + 1, 2), identity[..., 0]
    queries = [one.pair.query for one in shuffled]
    total, means = sums.sum(axis=0), by_query(sums, queries)
    return OrderScores(
        lift=ratio(total[..., :-1, 0], total[..., :-1, 1]),
        per_query=ratio(means[..., :-1, 0], means[..., :-1, 1]),
        identity=_mean(by_query(identity, queries)),
        weight=np.nan_to_num(ratio(total[..., -1, 0], total[..., -1, 1])),
        pairs=len(shuffled),
        ineligible=len(pairs) - len(shuffled),
        compared=int(np.isfinite(identity).any(axis=(1, 2)).sum()),
        coverage=_coverage(shuffled, encoded),
    )


def _look(
    scorer: Scorer, shuffled: Sequence[ShuffledPair], encoded: list[EncodedPair], shown: Progress
) -> FloatArray:
    """`offset_sums` and the identity index of every pair [pairs, layers, heads, numbers]."""
    layers = tuple(range(scorer.checkpoint.layers))
    width = 2 * (len(OFFSETS) + 1) + 1
    found = np.full((len(shuffled), len(layers), scorer.checkpoint.heads, width), np.nan)
    tokens = [
        _tokens(one, *encoded[2 * number : 2 * number + 2]) for number, one in enumerate(shuffled)
    ]
    reduction = Reduction("order", "attention", layers, lambda view: _numbers(view, tokens, width))
    batches = _together(encoded, tokens_at_once(scorer.encoder), scorer.pad)
    for swept in sweep(scorer.encoder, batches, [NONE], [reduction], shown=shown):
        found[swept.rows[::2] // 2] = swept.reduced["order"][0, 1::2]
    return found


def _together(encoded: list[EncodedPair], budget: int, pad: int) -> Iterator[Batch]:
    """Batches in which each pair's original stands right before its shuffled form."""
    lengths = [max(map(len, encoded[at : at + 2])) for at in range(0, len(encoded), 2)]
    if not lengths:
        return
    for numbers in length_batches(lengths, max(1, budget // 2)):
        rows = np.stack([2 * numbers, 2 * numbers + 1], axis=1).ravel()
        yield to_batch(rows, [encoded[row] for row in rows], pad=pad)


class _Tokens(NamedTuple):
    """The tokens of a pair's characters: by shuffled text, and of the title before and after."""

    texts: list[list[int]]
    title: Aligned


def _tokens(one: ShuffledPair, before: EncodedPair, after: EncodedPair) -> _Tokens:
    original, shuffled = one.texts
    title = _places(after, *shuffled, TITLE)
    texts = [list(title), *([list(_places(after, *shuffled, QUERY))] if one.query else [])]
    as_it_was = _places(before, *original, TITLE)
    return _Tokens(texts, align(before, after, as_it_was, title, one.title.came_from))


def _places(encoded: EncodedPair, query: str, title: str, side: int) -> dict[int, int]:
    """Token → place of the one character it stands for, of any script."""
    found = characters_of(encoded, query, title, side, han=False)
    return {one.token: one.place for one in found}


def _numbers(view: View, tokens: Sequence[_Tokens], width: int) -> torch.Tensor:
    """[B, heads, numbers]; the rows of the original pairs, each before its shuffled form, hold 0."""
    maps = view.values.float().cpu().numpy()
    found = np.zeros((len(maps), maps.shape[1], width), np.float32)
    for row in range(0, len(maps), 2):
        before, after = maps[row], maps[row + 1]
        texts, title = tokens[view.batch.rows[row] // 2]
        found[row + 1, :, :-1] = offset_sums(after, texts).reshape(len(after), -1)
        found[row + 1, :, -1] = identity_index(before, after, title)
    return torch.from_numpy(found)


def _mean(per_query: FloatArray) -> FloatArray:
    """Over the queries that say something; NaN where none does."""
    known = np.isfinite(per_query)
    return ratio(np.where(known, per_query, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _coverage(shuffled: Sequence[ShuffledPair], encoded: list[EncodedPair]) -> float:
    texts = [text for one in shuffled for text in one.texts[0]]
    seen = sum(
        len(characters_of(tokens, *one.texts[0], side))
        for one, tokens in zip(shuffled, encoded[::2], strict=True)
        for side in (QUERY, TITLE)
    )
    return coverage(texts, seen)
