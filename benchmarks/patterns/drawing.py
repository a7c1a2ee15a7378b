"""Drawing maps to be labelled, by seed: layers alike, heads spread, every map of another pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qt_bert.encoder.heads import Head, Shape
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import IntArray
from qt_bert.pairs import Pair
from qt_bert.probes.finetuning.compare import maps_of
from qt_bert.probes.map_patterns.stored import DrawnMap, kinds_of
from qt_bert.scoring.bulk import Scorer

LONGEST = 48
"""Maps of more tokens are not drawn: on a sheet nobody could judge them."""


@dataclass(frozen=True)
class Wanted:
    """A map to be drawn: which head of which model, on which row of the pairs."""

    model: str
    head: Head
    row: int


def wanted(
    shapes: Mapping[str, Shape], counts: Mapping[str, int], pairs: int, seed: int
) -> list[Wanted]:
    """So many maps (`counts`) of each model, in an order that says nothing of where they come from.

    The layers of a model differ by one map at most, and so do the heads of a layer. No two maps are
    of one pair. Raises ArgumentError where there are fewer `pairs` than maps.
    """
    total = sum(counts.values())
    if total > pairs:
        raise ArgumentError(f"{total} maps need as many pairs, each another; there are {pairs}")
    rng = np.random.default_rng(seed)
    heads = [
        (model, head)
        for model, count in counts.items()
        for head in _spread(shapes[model], count, rng)
    ]
    rows = rng.choice(pairs, total, replace=False)
    order = rng.permutation(total)
    return [Wanted(heads[place][0], heads[place][1], int(rows[place])) for place in order]


def _spread(shape: Shape, count: int, rng: np.random.Generator) -> list[Head]:
    """`count` heads: layers in turn (a random one first), within each its heads in a random turn."""
    by_layer: list[list[Head]] = [[] for _ in range(shape.layers)]
    for head in shape.all_heads:
        by_layer[head.layer].append(head)
    turns: list[list[Head]] = [
        [layer[i] for i in rng.permutation(len(layer))] for layer in by_layer
    ]
    layers = [layer for layer in rng.permutation(shape.layers) if turns[layer]]
    found = []
    for place in range(count):
        turn = turns[layers[place % len(layers)]]
        found.append(turn[(place // len(layers)) % len(turn)])
    return found


def draw(
    scorers: Mapping[str, Scorer], counts: Mapping[str, int], pairs: Sequence[Pair], seed: int
) -> list[DrawnMap]:
    """The maps themselves, called M001 and so on; of pairs of at most LONGEST tokens."""
    any_scorer = next(iter(scorers.values()))
    encoded = any_scorer.tokenizer.encode([(one.query, one.title) for one in pairs], offsets=False)
    short = [pair for pair, tokens in zip(pairs, encoded, strict=True) if len(tokens) <= LONGEST]
    shapes = {model: scorer.checkpoint.shape for model, scorer in scorers.items()}
    asked = wanted(shapes, counts, len(short), seed)
    drawn: dict[int, DrawnMap] = {}
    for model, scorer in scorers.items():
        places = [place for place, one in enumerate(asked) if one.model == model]
        for place, one in zip(
            places, _maps(scorer, [asked[p] for p in places], short), strict=True
        ):
            drawn[place] = replace(one, id=f"M{place + 1:0{len(str(len(asked)))}d}")
    return [drawn[place] for place in range(len(asked))]


def _maps(scorer: Scorer, asked: Sequence[Wanted], pairs: Sequence[Pair]) -> Iterable[DrawnMap]:
    """The maps asked of one model, in their order."""
    texts = [(pairs[one.row].query, pairs[one.row].title) for one in asked]
    found: dict[int, DrawnMap] = {}
    for batch in scorer.fresh().batches(texts, scorer.batch_tokens):
        maps = maps_of(scorer.encoder, batch).numpy().astype(np.float64)
        for at, (row, encoded) in enumerate(zip(batch.rows, batch.encoded, strict=True)):
            one, length = asked[row], len(encoded)
            layer, head = one.head
            weights = maps[at, layer, head, :length, :length]
            kinds: IntArray = kinds_of(encoded.side, encoded.separators, encoded.cls)
            pair = pairs[one.row].id or str(pairs[one.row].line)
            found[int(row)] = DrawnMap("", one.model, layer, head, pair, weights, kinds)
    return [found[row] for row in range(len(asked))]
