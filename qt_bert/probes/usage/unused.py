"""The property that is read well, and whose erasure changes the rank correlation least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qt_bert.probes.naming import Estimate, mean_of
from qt_bert.probes.usage.reading import Encoded
from qt_bert.probes.usage.study import Study
from qt_bert.stats.intervals import MOST_UNDEFINED

ERROR = 0.05
"""What all properties together may err by: each interval is at a level of its m-th part."""


class Ends(NamedTuple):
    """An estimate and its interval at the level that the properties share."""

    found: Estimate
    low: float
    high: float

    @property
    def furthest(self) -> float:
        """The end that is further from 0."""
        return max(abs(self.low), abs(self.high))


class Unused(NamedTuple):
    """A property that is read well enough, and what its erasure does to rank correlation."""

    about: Encoded
    change: Ends


def unused(study: Study) -> Unused | None:
    """Of the properties that are read better than their control, that of the least change of ρ.

    The change is that beyond the control which it differs from most. None where there is no such
    property: none is read well enough, is erased well everywhere, and has a control everywhere.
    """
    passed = []
    for one in study.tested:
        read = _ends(mean_of([study.decodable[one.name, place] for place in study.places]), study)
        erased = all(study.holds[one.name, place] for place in study.places)
        ranks = [ends for change in _changes(study, one.name) if (ends := _ends(change, study))]
        if read and read.low > 0 and erased and ranks:
            passed.append(Unused(one, max(ranks, key=lambda ends: ends.furthest)))
    return min(passed, key=lambda one: one.change.furthest, default=None)


def _changes(study: Study, name: str) -> list[Estimate]:
    """The change of ρ beyond each control, in the mean over the places."""
    effects, ranks = study.changes.effects, study.changes.metrics.ranks
    return [
        mean_of([effects[name, place, ranks].beyond(control) for place in study.places])
        for control in study.everywhere(name)
    ]


def _ends(one: Estimate, study: Study) -> Ends | None:
    """None without enough defined resamples."""
    known = one.samples[np.isfinite(one.samples)]
    enough = known.size and known.size >= (1 - MOST_UNDEFINED) * one.samples.size
    if not enough or not np.isfinite(one.value):
        return None
    level = ERROR / max(len(study.tested), 1)
    low, high = np.quantile(known, [level / 2, 1 - level / 2])
    return Ends(one, float(low), float(high))
