"""Passes over texts and their shuffled forms, from which every head gets its scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View, batch_tokens, sweep
from qt_bert.ablation.interventions import NONE
from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, length_batches
from qt_bert.models.batches import Batch, to_batch
from qt_bert.probes.naming import by_query
from qt_bert.probes.order.head_scores import OrderScores
from qt_bert.probes.order.maps import OFFSETS, Aligned, align, identity_index, offset_sums
from qt_bert.probes.order.texts import Moved, move_characters
from qt_bert.probes.streams import characters_of, coverage
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.judgements import index_queries


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
    scorer: Scorer,
    pairs: Sequence[Pair],
    *,
    seed: int,
    tokens: int | None = None,
    shown: Progress = silent,
) -> OrderScores:
    """Look at every pair as it is and with the characters of both texts shuffled, once.

    `tokens` bounds a batch, where it must be smaller than usual; `shown` counts texts.
    """
    rng = np.random.default_rng(seed)
    drawn = [(p, move_characters(p.title, rng), move_characters(p.query, rng)) for p in pairs]
    shuffled = [ShuffledPair(pair, title, query) for pair, title, query in drawn if title]
    texts = [text for one in shuffled for text in one.texts]
    encoded = scorer.fresh().tokenizer.encode(texts) if texts else []
    numbers = _look(scorer, shuffled, encoded, tokens or batch_tokens(), shown)
    sums, identity = np.split(numbers, [-1], axis=-1)
    sums, identity = sums.reshape(*numbers.shape[:3], len(OFFSETS) + 1, 2), identity[..., 0]
    queries = [one.pair.query for one in shuffled]
    index, n_queries = index_queries(queries)
    by_queries = np.zeros((n_queries, *sums.shape[1:]))
    np.add.at(by_queries, index, sums)
    return OrderScores(
        sums=by_queries,
        identities=by_query(identity, queries),
        pairs=len(shuffled),
        ineligible=len(pairs) - len(shuffled),
        compared=int(np.isfinite(identity).any(axis=(1, 2)).sum()),
        coverage=_coverage(shuffled, encoded),
    )


def _look(
    scorer: Scorer,
    shuffled: Sequence[ShuffledPair],
    encoded: list[EncodedPair],
    budget: int,
    shown: Progress,
) -> FloatArray:
    """`offset_sums` and the identity index of every pair [pairs, layers, heads, numbers]."""
    layers = tuple(range(scorer.checkpoint.layers))
    width = 2 * (len(OFFSETS) + 1) + 1
    found = np.full((len(shuffled), len(layers), scorer.checkpoint.heads, width), np.nan)
    tokens = [
        _tokens(one, *encoded[2 * number : 2 * number + 2]) for number, one in enumerate(shuffled)
    ]
    reduction = Reduction("order", "attention", layers, lambda view: _numbers(view, tokens, width))
    batches = _together(encoded, budget, scorer.pad)
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


def _coverage(shuffled: Sequence[ShuffledPair], encoded: list[EncodedPair]) -> float:
    texts = [text for one in shuffled for text in one.texts[0]]
    seen = sum(
        len(characters_of(tokens, *one.texts[0], side))
        for one, tokens in zip(shuffled, encoded[::2], strict=True)
        for side in (QUERY, TITLE)
    )
    return coverage(texts, seen)
