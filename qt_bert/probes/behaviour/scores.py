"""Cases judged by what a model scores their two titles: right, undecided or wrong.

After ABNIRML (MacAvaney et al. 2022), whose neutral band keeps a difference that means nothing from
counting. Numbers alone: no model is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError
from qt_bert.probes.behaviour.cases import BETTER, Case, Relation
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray

RIGHT, UNDECIDED, WRONG = 1, 0, -1


@dataclass(frozen=True, eq=False)
class Judged:
    """Cases with the scores [n] of both titles; `band` is the largest difference that means nothing."""

    cases: tuple[Case, ...]
    titles: FloatArray
    others: FloatArray
    band: float

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def deltas(self) -> FloatArray:
        """Δ, score(title) − score(other) [n]."""
        return self.titles - self.others

    @property
    def better(self) -> BoolArray:
        """Which cases ask for a better title [n]; the others ask for titles alike."""
        return are_better(self.cases)

    @property
    def outcomes(self) -> IntArray:
        """RIGHT, UNDECIDED or WRONG [n]."""
        return outcomes(self.deltas, self.better, self.band)

    @property
    def queries(self) -> list[str]:
        """The query of each case."""
        return [case.query for case in self.cases]

    def of_phenomenon(self, name: str) -> Judged:
        """The cases of one phenomenon."""
        return self.where(case.phenomenon == name for case in self.cases)

    def of_relation(self, relation: Relation) -> Judged:
        """The cases of one relation."""
        return self.where(case.relation == relation for case in self.cases)

    def where(self, keeps: Iterable[bool]) -> Judged:
        """Those cases that `keeps` [n] says yes to."""
        kept = [row for row, keep in enumerate(keeps) if keep]
        cases = tuple(self.cases[row] for row in kept)
        return Judged(cases, self.titles[kept], self.others[kept], self.band)


def judge_cases(
    scores_title: npt.ArrayLike, scores_other: npt.ArrayLike, cases: Sequence[Case], band: float
) -> Judged:
    """`cases` with a model's scores [n] of their titles and others, whatever its scale.

    Raises ArgumentError where there is not one finite score for each title, or `band` is below 0.
    """
    titles, others = (np.asarray(one, np.float64) for one in (scores_title, scores_other))
    for name, scores in (("titles", titles), ("others", others)):
        if scores.shape != (len(cases),) or not np.isfinite(scores).all():
            raise ArgumentError(
                f"the scores of the {name} have shape {scores.shape}: one finite number is needed "
                f"for each of {len(cases)} cases"
            )
    if not band >= 0:
        raise ArgumentError(f"the band is {band}; it is 0 or more")
    return Judged(tuple(cases), titles, others, float(band))


def are_better(cases: Sequence[Case]) -> BoolArray:
    """Which cases ask for a better title [n]."""
    return np.array([case.relation == BETTER for case in cases], np.bool_)


def outcomes(deltas: FloatArray, better: BoolArray, band: float) -> IntArray:
    """RIGHT, UNDECIDED or WRONG for each Δ [n].

    Of `better`: right above the band, wrong below −band, undecided between. Of the others: right
    within the band, else wrong.
    """
    beyond = np.abs(deltas) > band
    ranked = np.where(beyond, np.sign(deltas), UNDECIDED)
    return np.where(better, ranked, np.where(beyond, WRONG, RIGHT)).astype(np.int64)


def towards(before: FloatArray, after: FloatArray, better: BoolArray) -> FloatArray:
    """How far Δ [..., n] moved towards what a case asks for.

    Of `better`: by how much Δ rose; of the others: by how much |Δ| fell.
    """
    return np.asarray(np.where(better, after - before, np.abs(before) - np.abs(after)))
