"""What the behaviour card runs: both halves of the cases scored, and heads left out on the first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qt_bert.data.splits import Half
from qt_bert.probes.base import Context
from qt_bert.probes.behaviour.bands import Band
from qt_bert.probes.behaviour.carried import Carried, carried
from qt_bert.probes.behaviour.cases import Cases
from qt_bert.probes.behaviour.contests import LeftOut, tested
from qt_bert.probes.behaviour.estimates import Mean
from qt_bert.probes.behaviour.scores import Judged, judge_cases
from qt_bert.probes.behaviour.swept import scores_of
from qt_bert.probes.behaviour.tallies import Tally, ranked_higher, tallies


@dataclass(frozen=True, eq=False)
class OfHalf:
    """One half of the cases: judged, by phenomenon, and how often the better title scores higher."""

    judged: Judged
    tallies: dict[str, Tally]
    higher: Mean


@dataclass(frozen=True, eq=False)
class Study:
    """The figures are those of `validation`; `carried` and what it chose are of `discovery`.

    `tested` are the chosen sets on validation: none but under --full.
    """

    cases: Cases
    band: Band
    discovery: OfHalf
    validation: OfHalf
    carried: Carried
    tested: tuple[LeftOut, ...]

    @cached_property
    def n_pairs(self) -> int:
        """Pairs that the figures rest on: two a case of validation."""
        return 2 * len(self.validation.judged)

    @cached_property
    def n_queries(self) -> int:
        """Queries that the figures rest on."""
        return len(set(self.validation.judged.queries))


def study(context: Context, cases: Cases, band: Band) -> Study:
    """Score all cases, map the heads on discovery, test what that chose on validation."""
    titles, others = scores_of(context, cases.listed)
    judged = judge_cases(titles, others, cases.listed, band.value)
    found = carried(context, cases, band)
    return Study(
        cases=cases,
        band=band,
        discovery=_of_half(context, cases, judged, "discovery"),
        validation=_of_half(context, cases, judged, "validation"),
        carried=found,
        tested=tested(context, cases, found) if context.full else (),
    )


def _of_half(context: Context, cases: Cases, judged: Judged, half: Half) -> OfHalf:
    ids = {case.id for case in cases.half(half)}
    own = judged.where(case.id in ids for case in judged.cases)
    resamples, seed = context.resamples, context.seed
    return OfHalf(
        own,
        tallies(own, resamples=resamples, seed=seed),
        ranked_higher(own, resamples=resamples, seed=seed),
    )
