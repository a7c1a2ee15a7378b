"""What every head gives the next character and the separators, decision by decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qt_bert.ablation.reduction import Reduction, View
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.heads import Shape
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.common.streams import stream
from qt_bert.probes.word_ends.decisions import Decisions
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

EPSILON = 1e-6
FEATURES = ("next", "sep", "ratio")

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Weights:
    """Attention of each decision's left character, raw.

    `next` and `sep` [layers, heads, D]: to the right character, and to all separators together;
    `own` [layers, heads]: to the tokens of its own text, averaged over the decisions.
    """

    next: Float32Array
    sep: Float32Array
    own: FloatArray

    @property
    def shape(self) -> Shape:
        return Shape(*self.own.shape)

    def features(self, layer: int) -> Float32Array:
        """next, sep and log((sep + ε) / (next + ε)) of one layer [3, heads, D]."""
        following, separators = self.next[layer], self.sep[layer]
        ratio = np.log(separators + EPSILON) - np.log(following + EPSILON)
        return np.stack([following, separators, ratio])

    def article_says(self) -> npt.NDArray[np.bool_]:
        """The article's rule [layers, heads, D]: a word ends where [SEP] outweighs the next one."""
        return np.asarray(self.sep > self.next)


def weights_of(scorer: Scorer, decisions: Decisions, shown: Progress = silent) -> Weights:
    """One plain pass over the pairs of `decisions`; `shown` counts pairs."""
    shape = scorer.checkpoint.shape
    gather = _Gather(decisions, shape)
    if len(decisions):
        layers = tuple(range(shape.layers))
        reduction = Reduction("decisions", "attention", layers, gather.compute)
        stream(scorer, decisions.pairs, [reduction], shown=shown)
    return Weights(gather.next, gather.sep, gather.own / max(1, len(decisions)))


class _Seen(NamedTuple):
    """A batch's decisions: their numbers, their rows in the batch, and tokens by kind [n, L]."""

    numbers: npt.NDArray[np.int64]
    rows: torch.Tensor
    tokens: torch.Tensor
    separators: torch.Tensor
    own: torch.Tensor


class _Gather:
    """Fills its arrays as the pass goes by; what a pair's decisions say has no fixed shape."""

    def __init__(self, decisions: Decisions, shape: Shape) -> None:
        self.decisions = decisions
        self.next = np.zeros((*shape.size, len(decisions)), np.float32)
        self.sep = np.zeros_like(self.next)
        self.own = np.zeros(shape.size)
        order = np.argsort(decisions.pair, kind="stable")
        cuts = np.cumsum(np.bincount(decisions.pair, minlength=len(decisions.pairs)))
        self._of_pair = np.split(order, cuts[:-1])
        self._last: tuple[Batch, _Seen] | None = None

    def compute(self, view: View) -> torch.Tensor:
        """A `Reduction.compute` that keeps what it sees, and returns nothing but zeros [B]."""
        seen = self._seen(view.batch)
        rows = view.values[seen.rows, :, seen.tokens].float()
        each = torch.arange(len(rows))
        self.next[view.layer][:, seen.numbers] = rows[each, :, seen.tokens + 1].T.cpu().numpy()
        separators = torch.einsum("nhl,nl->hn", rows, seen.separators)
        self.sep[view.layer][:, seen.numbers] = separators.cpu().numpy()
        self.own[view.layer] += torch.einsum("nhl,nl->h", rows, seen.own).cpu().numpy()
        return torch.zeros(len(view.batch))

    def _seen(self, batch: Batch) -> _Seen:
        if self._last is None or self._last[0] is not batch:
            self._last = (batch, self._look(batch))
        return self._last[1]

    def _look(self, batch: Batch) -> _Seen:
        found = [self._of_pair[row] for row in batch.rows]
        numbers = np.concatenate(found)
        rows = np.repeat(np.arange(len(batch)), [len(one) for one in found])
        length = batch.input_ids.shape[1]
        separators = np.zeros((len(batch), length), np.float32)
        sides = np.full((len(batch), length), -1)
        for row, encoded in enumerate(batch.encoded):
            separators[row, encoded.separators] = 1
            sides[row, : len(encoded)] = encoded.side
        own = sides[rows] == self.decisions.side[numbers][:, None]
        return _Seen(
            numbers,
            torch.from_numpy(rows),
            torch.from_numpy(self.decisions.token[numbers]),
            torch.from_numpy(separators[rows]),
            torch.from_numpy(own.astype(np.float32)),
        )
