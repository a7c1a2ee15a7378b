"""The largest attention between two spans, either way, in every head, as a pass goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.models.batches import Batch
from qt_bert.models.heads import Head, by_layer
from qt_bert.probes.relations.links import Links
from qt_bert.probes.streams import stream
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, IntArray

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Spans:
    """What is asked of a pass: in which `pair` [N], between which tokens [N, 2], in which `heads`."""

    pair: IntArray
    first: IntArray
    second: IntArray
    heads: Sequence[Head]


@dataclass(frozen=True, eq=False)
class Weights:
    """The largest attention from any token of one span to any of the other.

    `up` [N, heads] from the first span to the second, `down` from the second to the first. `own`
    [heads]: the share of its attention that a token of the texts gives to tokens of the texts.
    """

    heads: Sequence[Head]
    up: Float32Array
    down: Float32Array
    own: FloatArray

    @property
    def either(self) -> Float32Array:
        """The larger of both ways [N, heads]."""
        return np.maximum(self.up, self.down)

    def column(self, head: Head) -> int:
        """Where a head stands among the columns."""
        return list(self.heads).index(head)


def link_weights(
    scorer: Scorer, links: Links, heads: Sequence[Head], *, shown: Progress = silent
) -> Weights:
    """One plain pass over the pairs of `links`."""
    asked = Spans(links.pair, links.first, links.second, heads)
    return span_weights(scorer, links.pairs, [asked], shown=shown)[0]


def span_weights(
    scorer: Scorer,
    pairs: Sequence[tuple[str, str]],
    asked: Sequence[Spans],
    *,
    shown: Progress = silent,
) -> list[Weights]:
    """One plain pass that answers all of `asked`; `shown` counts pairs."""
    gathers = [_Gather(one, len(pairs)) for one in asked]
    reductions = [
        Reduction(f"spans{number}", "attention", tuple(gather.of_layer), gather.compute)
        for number, gather in enumerate(gathers)
        if gather.of_layer and len(gather.asked.pair)
    ]
    if reductions:
        stream(scorer, pairs, reductions, shown=shown)
    return [
        Weights(one.heads, gather.up, gather.down, gather.own / max(1.0, gather.seen))
        for one, gather in zip(asked, gathers, strict=True)
    ]


class _Gather:
    """Fills its arrays as the pass goes by; what is asked of a pair has no fixed shape."""

    def __init__(self, asked: Spans, pairs: int) -> None:
        self.asked = asked
        self.of_layer = by_layer(asked.heads)
        self.up = np.zeros((len(asked.pair), len(asked.heads)), np.float32)
        self.down = np.zeros_like(self.up)
        self.own = np.zeros(len(asked.heads))
        self.seen = 0.0
        places = {head: place for place, head in enumerate(asked.heads)}
        self._columns = {
            layer: np.array([places[Head(layer, number)] for number in numbers], np.int64)
            for layer, numbers in self.of_layer.items()
        }
        order = np.argsort(asked.pair, kind="stable")
        cuts = np.cumsum(np.bincount(asked.pair, minlength=pairs))
        self._of_pair = np.split(order, cuts[:-1])
        self._last: tuple[Batch, list[_Block], Float32Array] | None = None

    def compute(self, view: View) -> torch.Tensor:
        """A `Reduction.compute` that keeps what it sees, and returns nothing but zeros [B]."""
        blocks, texts = self._look(view.batch)
        heads, columns = self.of_layer[view.layer], self._columns[view.layer]
        maps = view.values[:, list(heads)].float().cpu().numpy()
        for block in blocks:
            where = np.ix_(block.numbers, columns)
            self.up[where] = block.largest(maps)
            self.down[where] = block.turned().largest(maps)
        self.own[columns] += np.einsum("bq,bhqk,bk->h", texts, maps, texts, optimize=True)
        return torch.zeros(len(view.batch))

    def _look(self, batch: Batch) -> tuple[list[_Block], Float32Array]:
        """The batch's spans by their sizes, and which of its tokens are of the texts [B, L]."""
        if self._last is None or self._last[0] is not batch:
            texts = np.zeros(tuple(batch.input_ids.shape), np.float32)
            for row, encoded in enumerate(batch.encoded):
                texts[row, : len(encoded)] = np.array(encoded.side) >= 0
            self._last = batch, list(self._blocks(batch)), texts
            self.seen += float(texts.sum())
        return self._last[1:]

    def _blocks(self, batch: Batch) -> list[_Block]:
        found = [self._of_pair[row] for row in batch.rows]
        rows = np.repeat(np.arange(len(batch)), [len(one) for one in found])
        numbers = np.concatenate(found) if found else np.empty(0, np.int64)
        first, second = self.asked.first[numbers], self.asked.second[numbers]
        sizes = np.stack([np.diff(first)[:, 0], np.diff(second)[:, 0]], axis=1)
        blocks = []
        for size in np.unique(sizes, axis=0):
            mine = (sizes == size).all(axis=1)
            starts = first[mine, 0], second[mine, 0]
            tokens = [at[:, None] + np.arange(n) for at, n in zip(starts, size, strict=True)]
            blocks.append(_Block(numbers[mine], rows[mine], *tokens))
        return blocks


@dataclass(frozen=True, eq=False)
class _Block:
    """Spans of one size: their `numbers` and `rows` in the batch [n], and tokens [n, size]."""

    numbers: IntArray
    rows: IntArray
    looking: IntArray
    looked_at: IntArray

    def turned(self) -> _Block:
        return _Block(self.numbers, self.rows, self.looked_at, self.looking)

    def largest(self, maps: Float32Array) -> Float32Array:
        """Of maps [B, heads, L, L] the largest weight from one span to the other [n, heads]."""
        rows = self.rows[:, None, None]
        found = maps[rows, :, self.looking[:, :, None], self.looked_at[:, None, :]]
        return np.asarray(found.max(axis=(1, 2)))
