"""Vectors of a model, layer by layer: r0, the embeddings, to rn, what the last layer gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from qt_bert.ablation.engine import batch_tokens
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch
from qt_bert.models.forward import Encoder, attend
from qt_bert.probes.layers.examples import Places
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import IntArray


class Seen(NamedTuple):
    """What is read at some places: `rows` [n] says at which; `values` float32 [layers, n, width]."""

    rows: IntArray
    values: torch.Tensor


Reader = Callable[[Sequence[Places], Progress], Iterator[tuple[Seen, ...]]]
"""How places of the same texts are read: batches with one `Seen` for each of these places."""


def reader(scorer: Scorer, layers: Sequence[int] | None = None) -> Reader:
    """`vectors` of a model, of all r or of some."""
    return lambda places, shown: vectors(scorer, places, layers, shown=shown)


def states(encoder: Encoder, batch: Batch) -> Iterator[torch.Tensor]:
    """r0 … rn of a batch, each [B, L, hidden]; r(l + 1) is what layer l gives."""
    hidden = encoder.embed(batch)
    yield hidden
    for layer, bias in zip(encoder.layers, encoder.biases(batch), strict=True):
        query, key, value = layer.project(hidden)
        hidden = layer.finish(attend(query, key, value, bias), hidden)
        yield hidden


def vectors(
    scorer: Scorer,
    places: Sequence[Places],
    layers: Sequence[int] | None = None,
    *,
    shown: Progress = silent,
) -> Iterator[tuple[Seen, ...]]:
    """What is read at `places`, batch by batch, of all r or of the r numbered `layers`.

    Several `places` may be read in one pass where they are of the same texts; a batch gives one
    `Seen` for each. `shown` counts texts. Raises ArgumentError for places of different texts, and
    for an r that the model does not have.
    """
    _check(places)
    numbers = range(len(scorer.encoder.layers) + 1)
    wanted = list(numbers) if layers is None else list(layers)
    if outside := [number for number in wanted if number not in numbers]:
        raise ArgumentError(f"r{outside[0]}: the model has r0 to r{numbers[-1]}")
    for batch in scorer.fresh().batches(places[0].texts, batch_tokens()):
        with torch.inference_mode():
            held = _Held(batch, places, len(wanted))
            for number, hidden in enumerate(states(scorer.encoder, batch)):
                if number in wanted:
                    held.take(wanted.index(number), hidden.float())
                if number == max(wanted):
                    break
        yield tuple(held.seen)
        shown.advance(len(batch))


def bag_reader(scorer: Scorer) -> Reader:
    """Reads texts as bags of characters: what stands for a token before any layer and any place.

    It gives one layer, the word embeddings; of a text their mean, which holds no order.
    """

    def read(places: Sequence[Places], shown: Progress) -> Iterator[tuple[Seen, ...]]:
        _check(places)
        for batch in scorer.fresh().batches(places[0].texts, batch_tokens()):
            with torch.inference_mode():
                held = _Held(batch, places, 1)
                words = scorer.encoder.backbone.embeddings.word_embeddings(batch.input_ids)
                held.take(0, words.float())
            yield tuple(held.seen)
            shown.advance(len(batch))

    return read


def held(read: Reader, places: Places) -> torch.Tensor:
    """All that is read at some places, in memory and in their order [layers, n, width]."""
    found = [seen for (seen,) in read([places], silent)]
    rows = np.concatenate([one.rows for one in found])
    # A clone is no tensor of the inference mode, so that gradients can go through it.
    return torch.cat([one.values for one in found], dim=1)[:, np.argsort(rows)].clone()


def _check(places: Sequence[Places]) -> None:
    if any(one.texts != places[0].texts for one in places[1:]):
        raise ArgumentError("places that are read together must be of the same texts")


class _Held:
    """The vectors of one batch at some places, filled layer by layer."""

    def __init__(self, batch: Batch, places: Sequence[Places], layers: int) -> None:
        self._at = [_at(batch, one) for one in places]
        self._places = places
        self._layers = layers
        self.seen: list[Seen] = []

    def take(self, place: int, hidden: torch.Tensor) -> None:
        """Read one layer's vectors [B, L, hidden]."""
        if not self.seen:
            self.seen = [
                Seen(at.rows, torch.empty(self._layers, len(at.rows), one.width(hidden.shape[-1])))
                for at, one in zip(self._at, self._places, strict=True)
            ]
        sums = torch.nn.functional.pad(hidden.cumsum(1), (0, 0, 1, 0))
        for at, one, seen in zip(self._at, self._places, self.seen, strict=True):
            seen.values[place] = _read(at, one, hidden, sums)


class _At(NamedTuple):
    """Places in a batch: their numbers [n], their rows there [n], and their spans [n, S, 2]."""

    rows: IntArray
    batch: torch.Tensor
    spans: torch.Tensor


def _at(batch: Batch, places: Places) -> _At:
    starts, ends = places.starts[batch.rows], places.starts[batch.rows + 1]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    of = np.repeat(np.arange(len(batch)), ends - starts)
    return _At(rows, torch.from_numpy(of), torch.from_numpy(places.spans[rows]))


def _read(at: _At, places: Places, hidden: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    """[n, width] of vectors [B, L, hidden] and their running sums from 0 [B, L + 1, hidden]."""
    if places.unit == "token":
        return hidden[at.batch, at.spans[:, 0, 0]]
    of = at.batch[:, None]
    totals = sums[of, at.spans[..., 1]] - sums[of, at.spans[..., 0]]  # [n, S, hidden]
    sizes = (at.spans[..., 1] - at.spans[..., 0])[..., None]
    if places.unit == "text":
        return totals.sum(1) / sizes.sum(1)
    left, right = (totals / sizes).unbind(1)
    return torch.cat([left, right, left * right], dim=-1)
