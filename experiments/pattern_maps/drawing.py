"""Maps drawn to be labelled, by seed, and the contact sheets they are labelled from.

A sheet does not show where a map comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from experiments.pattern_maps.stored import CLS, QUERY, SEP, TITLE, DrawnMap, kinds_of
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape
from qt_bert.probes.tuning_maps import maps_of
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import IntArray

# Drawing maps to be labelled, by seed: layers alike, heads spread, every map of another pair.

LONGEST = 48
"""Maps of more tokens are not drawn: they cannot be judged on a sheet."""


@dataclass(frozen=True)
class Wanted:
    """A map to be drawn: which head of which model, on which row of the pairs."""

    model: str
    head: Head
    row: int


def wanted(
    shapes: Mapping[str, Shape], counts: Mapping[str, int], pairs: int, seed: int
) -> list[Wanted]:
    """`counts` maps of each model, in random order.

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
    requested = wanted(shapes, counts, len(short), seed)
    drawn: dict[int, DrawnMap] = {}
    for model, scorer in scorers.items():
        places = [place for place, one in enumerate(requested) if one.model == model]
        for place, one in zip(
            places, _maps(scorer, [requested[p] for p in places], short), strict=True
        ):
            drawn[place] = replace(one, id=f"M{place + 1:0{len(str(len(requested)))}d}")
    return [drawn[place] for place in range(len(requested))]


def _maps(scorer: Scorer, requested: Sequence[Wanted], pairs: Sequence[Pair]) -> Iterable[DrawnMap]:
    """The maps of one model, in order."""
    texts = [(pairs[one.row].query, pairs[one.row].title) for one in requested]
    found: dict[int, DrawnMap] = {}
    for batch in scorer.fresh().batches(texts, scorer.batch_tokens):
        maps = maps_of(scorer.encoder, batch).numpy().astype(np.float64)
        for at, (row, encoded) in enumerate(zip(batch.rows, batch.encoded, strict=True)):
            one, length = requested[row], len(encoded)
            layer, head = one.head
            weights = maps[at, layer, head, :length, :length]
            kinds: IntArray = kinds_of(encoded.side, encoded.separators, encoded.cls)
            pair = pairs[one.row].id or str(pairs[one.row].line)
            found[int(row)] = DrawnMap("", one.model, layer, head, pair, weights, kinds)
    return [found[row] for row in range(len(requested))]


# Contact sheets: maps to be labelled by looking, with nothing on them of where they come from.

ACROSS, DOWN = 6, 4
SIDE, LEFT, TOP = 195, 22, 34
GAMMA = 0.8
BORDER, TICK, INK = (90, 160, 255), (220, 40, 40), (0, 0, 0)


def draw_sheets(maps: Sequence[DrawnMap], folder: Path) -> list[Path]:
    """Write `sheet-01.png` and so on, ACROSS × DOWN maps each; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    size = ACROSS * DOWN
    written = []
    for number, start in enumerate(range(0, len(maps), size), 1):
        path = folder / f"sheet-{number:02d}.png"
        _sheet(maps[start : start + size]).save(path)
        written.append(path)
    return written


def _sheet(maps: Sequence[DrawnMap]) -> Image.Image:
    sheet = Image.new("RGB", (ACROSS * (SIDE + LEFT) + 10, DOWN * (SIDE + TOP) + 10), "white")
    for place, one in enumerate(maps):
        down, across = divmod(place, ACROSS)
        sheet.paste(_picture(one), (across * (SIDE + LEFT), down * (SIDE + TOP)))
    return sheet


def _picture(one: DrawnMap) -> Image.Image:
    """A map with its number; darker is more, black is what half of the rows give at least once."""
    picture = Image.new("RGB", (SIDE + LEFT, SIDE + TOP), "white")
    pen = ImageDraw.Draw(picture)
    black = float(np.median(one.weights.max(axis=1)))
    edges = np.linspace(0, SIDE, len(one.kinds) + 1).round().astype(int).tolist()
    shades = (255 * (1 - np.minimum(one.weights / black, 1) ** GAMMA)).astype(int)
    for row, column in np.ndindex(shades.shape):
        corner = (LEFT + edges[column], TOP + edges[row])
        far = (LEFT + edges[column + 1] - 1, TOP + edges[row + 1] - 1)
        shade = int(shades[row, column])
        pen.rectangle((corner, far), fill=(shade, shade, shade))
    _marks(pen, one.kinds, edges)
    font = ImageFont.load_default(15)
    pen.text((LEFT, 2), f"{one.id}", fill=INK, font=font)
    note = f"{len(one.kinds)} tokens, black = {black:.2f}"
    pen.text((LEFT + 60, 5), note, fill=(110, 110, 110), font=ImageFont.load_default(11))
    return picture


def _marks(pen: ImageDraw.ImageDraw, kinds: np.ndarray, edges: list[int]) -> None:
    """Borders of the segments as lines, [CLS] and [SEP] as ticks outside the map."""
    pen.rectangle((LEFT - 1, TOP - 1, LEFT + SIDE, TOP + SIDE), outline=BORDER)
    starts = np.flatnonzero((kinds[1:] == TITLE) & (kinds[:-1] != TITLE)) + 1
    if (kinds == QUERY).any() and len(starts):  # the first title token after the query's separator
        at = edges[starts[0]]
        pen.line((LEFT + at, TOP, LEFT + at, TOP + SIDE), fill=BORDER)
        pen.line((LEFT, TOP + at, LEFT + SIDE, TOP + at), fill=BORDER)
    for token in np.flatnonzero((kinds == CLS) | (kinds == SEP)):
        low, high = edges[token], edges[token + 1] - 1
        pen.rectangle((LEFT + low, TOP - 8, LEFT + high, TOP - 3), fill=TICK)
        pen.rectangle((LEFT - 8, TOP + low, LEFT - 3, TOP + high), fill=TICK)
