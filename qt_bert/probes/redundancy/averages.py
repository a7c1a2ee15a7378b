"""Means over random draws in points, with intervals that resample the queries and the draws."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.probes.claims import POINT
from qt_bert.probes.naming import Estimate, mean_over
from qt_bert.probes.redundancy.study import Sweep


def steps_of(sweep: Sweep, family: str) -> dict[float, list[int]]:
    """Share of all heads in percent → the variants of `family` that leave out so many."""
    found: dict[float, list[int]] = {}
    for row in sweep.by_family.get(family, ()):
        share = float(sweep.name(row).rpartition(":")[2].partition("%")[0])
        found.setdefault(share, []).append(row)
    return dict(sorted(found.items()))


def mean_over_draws(sweep: Sweep, rows: Sequence[int], seed: int) -> Estimate:
    """The mean change over draws; each resample draws among the draws, too."""
    samples = mean_over(sweep.resampled(rows) / POINT, seed, sweep.name(rows[0]))
    return Estimate(float(sweep.change(map(sweep.name, rows)).mean()) / POINT, samples)
