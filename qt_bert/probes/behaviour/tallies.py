"""What a model makes of each phenomenon: how many cases are right, and how far its titles part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.probes.behaviour.cases import ALIKE, BETTER, Relation
from qt_bert.probes.behaviour.estimates import SWAPS, Mean, mean
from qt_bert.probes.behaviour.scores import RIGHT, UNDECIDED, WRONG, Judged, outcomes
from qt_bert.stats.intervals import RESAMPLES

RELATIONS: tuple[Relation, ...] = (BETTER, ALIKE)


@dataclass(frozen=True, eq=False)
class Tally:
    """Cases of one phenomenon.

    `score` is (right − wrong) / n, `delta` the mean Δ (of `alike` ones the lean: above 0 the
    unchanged title is preferred), `higher` the share of cases whose title scores above the other.
    """

    phenomenon: str
    relation: Relation
    right: int
    undecided: int
    wrong: int
    score: Mean
    delta: Mean
    higher: Mean

    @property
    def n(self) -> int:
        """How many cases."""
        return self.score.n


def tallies(
    judged: Judged, *, resamples: int = RESAMPLES, seed: int = 0, swaps: int = SWAPS
) -> dict[str, Tally]:
    """Every phenomenon of `judged`, in the order in which they first come."""
    names = dict.fromkeys(case.phenomenon for case in judged.cases)
    return {name: _tally(judged.of_phenomenon(name), resamples, seed, swaps) for name in names}


def _tally(judged: Judged, resamples: int, seed: int, swaps: int) -> Tally:
    found, deltas = judged.outcomes, judged.deltas
    values = {
        "score": found.astype(np.float64),
        "delta": deltas,
        "higher": (deltas > 0).astype(np.float64),
    }
    means = {
        name: mean(
            one,
            judged.queries,
            resamples=resamples,
            seed=seed,
            swaps=0 if name == "higher" else swaps,
        )
        for name, one in values.items()
    }
    right, undecided, wrong = (int((found == one).sum()) for one in (RIGHT, UNDECIDED, WRONG))
    case = judged.cases[0]
    return Tally(case.phenomenon, case.relation, right, undecided, wrong, **means)


def ranked_higher(judged: Judged, *, resamples: int, seed: int) -> Mean:
    """The share of all `better` cases whose better title scores higher."""
    better = judged.of_relation(BETTER)
    higher = (better.deltas > 0).astype(np.float64)
    return mean(higher, better.queries, resamples=resamples, seed=seed, swaps=0)


def scores_by_band(
    judged: Judged, bands: list[float], *, resamples: int, seed: int
) -> dict[Relation, list[Mean]]:
    """The score over all cases of either relation, were the band each of `bands`."""
    found: dict[Relation, list[Mean]] = {}
    for relation in RELATIONS:
        own = judged.of_relation(relation)
        if len(own):
            found[relation] = [
                mean(
                    outcomes(own.deltas, own.better, band).astype(np.float64),
                    own.queries,
                    resamples=resamples,
                    seed=seed,
                    swaps=0,
                )
                for band in bands
            ]
    return found
