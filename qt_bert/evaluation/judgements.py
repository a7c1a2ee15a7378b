"""What every metric sees: a model's outputs beside the labels, whatever the model and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import BoolArray, FloatArray, IntArray, expectation, ratio

Mode: TypeAlias = Literal["grades", "coarse", "levels", "overlapping", "score"]
T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Judgements:
    """n pairs of Q queries, judged at L ordered levels. Made by `judge_*`, never by hand.

    `mode` says how model and labels meet:

    - `grades`: labels are exact grades, the model has a logit for each of the five;
    - `coarse`: labels are disjoint sets of grades, which are the levels;
    - `levels`: the levels are those of a model with other than five logits;
    - `overlapping`: sets that cannot be told apart: only accuracy and ranking are defined;
    - `score`: one logit: only the order of titles is defined.

    In the last two `levels` is empty, and `truth`, `level_probabilities` and
    `label_probability` are None; in the last one `predicted` and `correct` are None as well.
    """

    mode: Mode
    ranking_score: FloatArray
    """Expected grade (or level), or the one logit [n]."""
    ranking_truth: FloatArray
    """Grade, level number from 1, or mean grade of the label [n]."""
    spearman_target: FloatArray
    """What `spearman` sets the score against [n]: `ranking_truth` or a reference score."""
    query_index: IntArray
    """The query of each pair, 0..Q-1 [n]."""
    n_queries: int
    """Q."""
    auc_cut: float
    """The least `ranking_truth` that `auc` counts as relevant."""
    levels: tuple[str, ...] = ()
    """Names of the L levels, lowest first; level i has the numeric value i + 1."""
    truth: IntArray | None = None
    """The label's level, 0-based [n]."""
    level_probabilities: FloatArray | None = None
    """Probability of each level [n, L]; sums to less than 1 where the labels leave a grade out."""
    label_probability: FloatArray | None = None
    """Probability of the label, the sum over its set [n]."""
    predicted: IntArray | None = None
    """The likeliest level, 0-based, ties to the lowest [n]; `overlapping`: likeliest logit."""
    correct: BoolArray | None = None
    """Whether the prediction is the label's level, or lies in the label's set [n]."""

    def __len__(self) -> int:
        return len(self.ranking_score)

    @property
    def values(self) -> FloatArray:
        """Numeric value of each level, 1..L: the grade itself in mode `grades`."""
        return np.arange(1.0, len(self.levels) + 1)

    @property
    def expected(self) -> FloatArray:
        """Expected level value [n], from the probabilities of the levels alone."""
        probabilities = known(self.level_probabilities)
        mean = ratio(expectation(probabilities, self.values), probabilities.sum(axis=1))
        return np.where(np.isnan(mean), known(self.predicted) + 1.0, mean)

    @property
    def eligible(self) -> BoolArray:
        """Queries that have two pairs of different truth, so that their order matters [Q]."""
        lowest = np.full(self.n_queries, np.inf)
        highest = np.full(self.n_queries, -np.inf)
        np.minimum.at(lowest, self.query_index, self.ranking_truth)
        np.maximum.at(highest, self.query_index, self.ranking_truth)
        return np.asarray(highest > lowest)

    def subset(self, rows: npt.ArrayLike) -> Judgements:
        """The judgements of some pairs (a mask or indices [m]), at the same levels.

        Raises ArgumentError where no pair is left.
        """
        keep = np.arange(len(self))[np.asarray(rows)]
        if keep.size == 0:
            raise ArgumentError("no graded pair is left in this subset")
        queries, query_index = np.unique(self.query_index[keep], return_inverse=True)
        return replace(
            self,
            truth=take(self.truth, keep),
            level_probabilities=take(self.level_probabilities, keep),
            predicted=take(self.predicted, keep),
            correct=take(self.correct, keep),
            label_probability=take(self.label_probability, keep),
            ranking_score=self.ranking_score[keep],
            ranking_truth=self.ranking_truth[keep],
            spearman_target=self.spearman_target[keep],
            query_index=query_index.astype(np.int64),
            n_queries=len(queries),
        )

    def with_predicted(self, predicted: npt.ArrayLike) -> Judgements:
        """The same with other predicted levels (0-based [n]), as from fitted cut-offs.

        Raises ArgumentError for modes without levels, another length, or an unknown level.
        """
        if self.truth is None:
            raise ArgumentError(f"cut-offs need levels, and there are none in mode {self.mode}")
        levels = np.asarray(predicted)
        if levels.shape != self.truth.shape:
            raise ArgumentError(f"{levels.size} predictions for {len(self)} pairs")
        if not np.isin(levels, np.arange(len(self.levels))).all():
            raise ArgumentError(f"a predicted level lies outside 0..{len(self.levels) - 1}")
        levels = levels.astype(np.int64)
        return replace(self, predicted=levels, correct=levels == self.truth)


def known(value: T | None) -> T:
    """`value`, or ArgumentError where the mode of the judgements does not define it."""
    if value is None:
        raise ArgumentError("these labels and this model have no common levels to judge at")
    return value


def take(array: npt.NDArray[Scalar] | None, rows: IntArray) -> npt.NDArray[Scalar] | None:
    """`array[rows]`, or None for None."""
    return None if array is None else array[rows]


def index_queries(queries: Sequence[str]) -> tuple[IntArray, int]:
    """Number the queries in order of first appearance: index [n] and how many there are."""
    number: dict[str, int] = {}
    index = [number.setdefault(query, len(number)) for query in queries]
    return np.array(index, dtype=np.int64), len(number)
