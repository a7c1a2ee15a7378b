"""What leaving something out costs, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from qt_bert.ablation.effect_metrics import OutputReader
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair

if TYPE_CHECKING:
    from qt_bert.encoder import ModelLabels


@dataclass(frozen=True, eq=False)
class Losses:
    """The loss of every variant of a sweep on every pair.

    `names` [V] are the variants', `none` first; `values` [V, P]: −log Σ p over the pair's label, in
    nats. A model of one logit has no such p: there it is the squared change of its score against
    the whole model's. `logits` [V, P, K] are what they were read from.
    """

    pairs: tuple[Pair, ...]
    names: tuple[str, ...]
    values: FloatArray
    logits: np.ndarray = field(repr=False)

    @property
    def base(self) -> float:
        """The mean loss of the whole model."""
        return float(self.values[0].mean())

    def mean(self, name: str) -> float:
        """The mean loss under one variant. Raises ArgumentError for one that was not run."""
        if name not in self.names:
            raise ArgumentError(f"nothing was measured without {name}; measure it with the others")
        return float(self.values[self.names.index(name)].mean())

    def added(self, name: str) -> float:
        """What one variant adds to the mean loss of the whole model."""
        return self.mean(name) - self.base

    def on(self, pairs: Sequence[Pair]) -> Losses:
        """The same on some of the pairs. Raises ArgumentError for a pair that was not measured."""
        rows = {_place(pair): row for row, pair in enumerate(self.pairs)}
        strange = next((pair for pair in pairs if _place(pair) not in rows), None)
        if strange is not None:
            raise ArgumentError(f"the pair of line {strange.line} is not among those measured")
        wanted = [rows[_place(pair)] for pair in pairs]
        return Losses(tuple(pairs), self.names, self.values[:, wanted], self.logits[:, wanted])


def losses_of(
    logits: np.ndarray, names: Sequence[str], pairs: Sequence[Pair], labels: ModelLabels
) -> Losses:
    """The losses of logits [V, P, K], row 0 the whole model's.

    Raises ArgumentError for logits that are not finite, for labels that do not fit the model, and
    for pairs without labels, unless the model has one logit.
    """
    reader = OutputReader(pairs, labels)
    if labels.logits > 1 and not reader.labelled:
        raise ArgumentError("heads and layers are chosen by the labels, and the pairs have none")
    whole = reader.read(logits[0])
    values = np.empty(logits.shape[:2])
    for variant, one in enumerate(logits):
        outputs = reader.read(one)
        if outputs.log_label is None:
            values[variant] = np.square(outputs.score - whole.score)
        else:
            values[variant] = -outputs.log_label
    return Losses(tuple(pairs), tuple(names), values, logits)


def _place(pair: Pair) -> tuple[int, str, str, str]:
    return pair.line, pair.id, pair.query, pair.title
