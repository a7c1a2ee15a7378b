"""Labels as sets of grades: which sets a file has, whether they are ordered levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray, IntArray

GradeSet: TypeAlias = tuple[int, ...]

GRADES: GradeSet = (1, 2, 3, 4, 5)
FIVE_GRADES: tuple[GradeSet, ...] = tuple((grade,) for grade in GRADES)
GRADE_CUT = 4


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of n pairs: `sets` are the distinct ones by mean grade, `index` [n] into them.

    `kind` is `exact` (every set holds one grade), `coarse` (disjoint sets with different means:
    the levels of the file) or `overlapping` (anything else: no order of levels can be told).
    """

    sets: tuple[GradeSet, ...]
    index: IntArray
    kind: Literal["exact", "coarse", "overlapping"]

    @property
    def ranking_truth(self) -> FloatArray:
        """What a ranking is held against [n]: grade, level number from 1, or mean grade."""
        if self.kind == "coarse":
            return self.index.astype(np.float64) + 1
        return set_means(self.sets)[self.index]

    @property
    def auc_cut(self) -> float:
        """The least `ranking_truth` that counts as relevant: strictly above the middle."""
        return middle_cut(len(self.sets)) if self.kind == "coarse" else float(GRADE_CUT)


def read_labels(grade_sets: Sequence[Sequence[int] | None]) -> Labels:
    """Sort out the labels of n pairs.

    Raises ArgumentError where there is no label, or one that is empty or outside 1..5.
    """
    if len(grade_sets) == 0:
        raise ArgumentError("no graded pair: metrics need at least one pair with a grade")
    normal: dict[GradeSet, GradeSet] = {}
    of_pair: list[GradeSet] = []
    for row, grades in enumerate(grade_sets):
        key = tuple(grades or ())
        if key not in normal:
            normal[key] = checked_set(key, f"the label of pair {row}")
        of_pair.append(normal[key])
    sets = tuple(sorted(set(normal.values()), key=lambda one: (sum(one) / len(one), one)))
    place = {one: number for number, one in enumerate(sets)}
    index = np.array([place[one] for one in of_pair], dtype=np.int64)
    if all(len(one) == 1 for one in sets):
        return Labels(sets, index, "exact")
    return Labels(sets, index, "coarse" if are_ordered_levels(sets) else "overlapping")


def checked_set(grades: GradeSet, where: str) -> GradeSet:
    """`grades` sorted and without repeats; ArgumentError naming `where` if it is no set of 1..5."""
    if not grades:
        raise ArgumentError(f"{where} is empty: leave pairs without a grade out before judging")
    if any(grade not in GRADES for grade in grades):
        raise ArgumentError(f"{where} is {grades}, but grades are whole numbers from 1 to 5")
    return tuple(sorted({int(grade) for grade in grades}))


def set_means(sets: Sequence[GradeSet]) -> FloatArray:
    """Mean grade of each set."""
    return np.array([sum(one) / len(one) for one in sets])


def are_ordered_levels(sets: Sequence[GradeSet]) -> bool:
    """Whether the sets share no grade and no two have the same mean."""
    disjoint = sum(map(len, sets)) == len(set().union(*sets))
    return disjoint and all(low < high for low, high in pairwise(sorted(set_means(sets))))


def middle_cut(n_levels: int) -> float:
    """The first level number strictly above the middle of 1..n (4 of five, 3 of four or three)."""
    return float((n_levels + 1) // 2 + 1)


def name_set(grades: GradeSet) -> str:
    """`3`, `1-2`, or `1,3`: how a set of grades is written for a reader."""
    consecutive = grades == tuple(range(grades[0], grades[-1] + 1))
    if len(grades) > 1 and consecutive:
        return f"{grades[0]}-{grades[-1]}"
    return ",".join(map(str, grades))
