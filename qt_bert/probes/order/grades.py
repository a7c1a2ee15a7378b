"""What logits say in one number, and which pairs stand at the two ends of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.models.card import ModelLabels
from qt_bert.scoring.judge import read_outputs
from qt_bert.stats.arrays import FloatArray

HIGH = 4
LOW = 1


def expected_grades(logits: np.ndarray, labels: ModelLabels) -> FloatArray:
    """Expected grades (or levels; the score of a one-logit model) of logits [..., K] → [...]."""
    outputs = read_outputs(logits.reshape(-1, logits.shape[-1]), labels)
    values = outputs.score if outputs.expected is None else outputs.expected
    return np.asarray(values, dtype=np.float64).reshape(logits.shape[:-1])


def probabilities(logits: np.ndarray, labels: ModelLabels) -> FloatArray | None:
    """Probabilities of logits [n, K]; None for a one-logit model."""
    found = read_outputs(logits, labels).probabilities
    return None if found is None else np.asarray(found, dtype=np.float64)


@dataclass(frozen=True)
class Ends:
    """The labels that count as high (grades 4 and 5) and as low (grade 1)."""

    high: tuple[GradeSet, ...]
    low: tuple[GradeSet, ...]


def ends(pairs: Sequence[Pair], labels: ModelLabels) -> Ends:
    """The labels of `pairs` that mean grades 4 or 5 alone, and those that mean grade 1 alone.

    Where none means grade 1 alone, the lowest label is the low one; of levels that are no grades,
    the model's highest and lowest are the ends.
    """
    found = sorted({pair.grades for pair in pairs if pair.grades}, key=_mean)
    if labels.grades is None and labels.logits > 1:
        return Ends(*(tuple(s for s in found if s == (n,)) for n in (labels.logits, 1)))
    high = tuple(one for one in found if min(one) >= HIGH)
    low = tuple(one for one in found if max(one) <= LOW)
    return Ends(high, low or tuple(one for one in found[:1] if one not in high))


def grade_label(grades: GradeSet) -> str:
    """`4`, or `1-2` for a label that may mean several."""
    return str(grades[0]) if len(grades) == 1 else f"{min(grades)}-{max(grades)}"


def _mean(grades: GradeSet) -> tuple[float, GradeSet]:
    return sum(grades) / len(grades), grades
