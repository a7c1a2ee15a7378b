"""Which differences between titles does the model tell, and what moves it that must not? (ABNIRML, 3)

A case is a query with two titles; Δ is the score of the first less that of the second, the expected
grade or the one logit. Of `better` cases a Δ above the band is right, one below minus the band wrong,
the rest undecided; of `alike` ones a Δ within the band is right, else wrong. A phenomenon's score is
(right − wrong) / cases (MacAvaney et al. 2022). Nothing is chosen, so that all cases count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import sample_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.figures import Figure, bars
from qt_bert.probes.base import Context, Result
from qt_bert.probes.behaviour_cases import (
    ALIKE,
    BETTER,
    Case,
    Cases,
    Relation,
    read_cases,
    titles_then_others,
)
from qt_bert.probes.contests import POINTS
from qt_bert.results.head_sets import PHENOMENA, phenomenon_name
from qt_bert.scoring.judge import ranking_scores
from qt_bert.scoring.slices import character_overlap
from qt_bert.shipped import BEHAVIOURS, shipped, ships
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray
from qt_bert.stats.estimate import Estimate, over_queries

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels

# Cases judged by the scores of their titles.

RIGHT, UNDECIDED, WRONG = 1, 0, -1


@dataclass(frozen=True, eq=False)
class Judged:
    """Cases with the scores [n] of both titles; `band` is the largest difference that means nothing.

    Raises ArgumentError where there is not one finite score for each title, or `band` is below 0.
    """

    cases: tuple[Case, ...]
    titles: FloatArray
    others: FloatArray
    band: float

    def __post_init__(self) -> None:
        for name, scores in (("titles", self.titles), ("others", self.others)):
            if scores.shape != (len(self.cases),) or not np.isfinite(scores).all():
                raise ArgumentError(
                    f"the scores of the {name} have shape {scores.shape}: one finite number is "
                    f"needed for each of {len(self.cases)} cases"
                )
        if not self.band >= 0:
            raise ArgumentError(f"the band is {self.band}; it is 0 or more")

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def deltas(self) -> FloatArray:
        """Δ, score(title) − score(other) [n]."""
        return self.titles - self.others

    @property
    def better(self) -> BoolArray:
        """Which cases ask for a better title [n]; the others ask for titles alike."""
        return np.array([case.relation == BETTER for case in self.cases], np.bool_)

    @cached_property
    def outcomes(self) -> IntArray:
        """RIGHT, UNDECIDED (of `better` alone) or WRONG [n]."""
        beyond = np.abs(self.deltas) > self.band
        ranked = np.where(beyond, np.sign(self.deltas), UNDECIDED)
        return np.where(self.better, ranked, np.where(beyond, WRONG, RIGHT)).astype(np.int64)

    @property
    def queries(self) -> list[str]:
        """The query of each case."""
        return [case.query for case in self.cases]

    @property
    def score(self) -> Estimate:
        """(right − wrong) / cases: a query's cases averaged, then the queries."""
        return over_queries(self.outcomes, self.queries)

    def by_phenomenon(self) -> dict[str, Judged]:
        """The cases of each phenomenon, in the order in which they first come."""
        names = dict.fromkeys(case.phenomenon for case in self.cases)
        return {name: self.where(one.phenomenon == name for one in self.cases) for name in names}

    def where(self, keeps: Iterable[bool]) -> Judged:
        """Those cases that `keeps` [n] says yes to."""
        kept = [row for row, keep in enumerate(keeps) if keep]
        cases = tuple(self.cases[row] for row in kept)
        return Judged(cases, self.titles[kept], self.others[kept], self.band)


def higher(deltas: FloatArray) -> FloatArray:
    """1 where the first title is higher, ½ where the two are equal, else 0 [n]."""
    return np.asarray((1 + np.sign(deltas)) / 2)


# The band: the largest difference of two scores that means nothing.

GRADES = 0.25
"""Of expected grades: a sixteenth of the way from 1 to 5."""
QUICK_PAIRS = 400


@dataclass(frozen=True)
class Band:
    """Its width in `unit` (`grade`, `level`, or the `score` of one logit).

    `source` is `fixed`, or the name of the file whose `gaps` it is the median of.
    """

    value: float
    unit: str
    source: str = "fixed"
    gaps: int | None = None


def fixed_band(labels: ModelLabels) -> Band | None:
    """0.25 of a grade, as large a share of the scale of other levels; None for one logit."""
    if labels.logits == 1:
        return None
    if labels.grades is not None:
        return Band(GRADES, "grade")
    return Band(GRADES * (labels.logits - 1) / 4, "level")


def measured_band(scores: FloatArray, queries: Sequence[str], source: str) -> Band:
    """The median gap between neighbours in the ranking of each query's titles by `scores` [n]."""
    own: dict[str, list[float]] = {}
    for score, query in zip(scores, queries, strict=True):
        own.setdefault(query, []).append(float(score))
    gaps = np.concatenate([np.diff(np.sort(one)) for one in own.values()])
    return Band(float(np.median(gaps)), "score", source, len(gaps))


def ranked_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of queries that have two titles or more, each pair once: a repeated one has no gap."""
    once: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        once.setdefault((pair.query, pair.title), pair)
    titles = Counter(query for query, _ in once)
    return [pair for pair in once.values() if titles[pair.query] > 1]


def band_of(context: Context) -> Band | None:
    """`fixed_band`; of one logit `measured_band`, on `--band-from` or, by default, discovery.

    None where no query there has two titles. Raises PairFileError where the user's own file has none.
    """
    fixed = fixed_band(context.model.checkpoint.settings.labels)
    if fixed is not None:
        return fixed
    given = context.band_from
    read = context.discovery if given is None else list(context.files.reader.open(given))
    pairs = ranked_pairs(read)
    if not pairs:
        if given is not None:
            raise PairFileError(f"{given}: no query of two titles to measure the band on")
        return None
    pairs = sample_queries(pairs, context.choose(QUICK_PAIRS, len(pairs)), context.seed)
    name = (given or context.files.discovery or context.files.pairs).name
    return measured_band(scores_of(context, pairs), [pair.query for pair in pairs], name)


def scores_of(context: Context, pairs: Sequence[Pair]) -> FloatArray:
    """The model's expected grades of `pairs`, or its one logit [pairs]."""
    with context.progress(len(pairs), "pairs") as shown:
        logits = context.model.fresh().logits([(p.query, p.title) for p in pairs], shown)
    return ranking_scores(logits, context.model.checkpoint.settings.labels)


# The probe.


def measure(context: Context) -> Result:
    """Score all cases, and each phenomenon where there is a band."""
    cases = read_cases(context.cases or shipped(BEHAVIOURS))
    pairs = titles_then_others(cases.listed)
    titles, others = np.split(scores_of(context, pairs), 2)
    judged = Judged(cases.listed, titles, others, 0.0)

    better = judged.where(judged.better)
    overlaps = np.array(
        [
            character_overlap(one.query, one.title) - character_overlap(one.query, one.other)
            for one in better.cases
        ]
    )
    told = over_queries(higher(better.deltas), better.queries)
    by_characters = over_queries(higher(overlaps), better.queries)
    claim = POINTS * (told - by_characters) if _are_shipped(cases) else "precondition:cases"
    found = Result(
        claims={"told": claim},
        measurements={"ranked_higher": told, "ranked_higher_by_characters": by_characters},
        facts={
            "file": cases.path.name,
            "cases": len(cases.listed),
            "phenomena": len(cases.phenomena),
        },
        settings={"cases": {"file": cases.path.name, "texts_sha256": cases.texts_sha256}},
        pairs=pairs,
    )
    band = band_of(context)
    if band is None:
        return replace(found, nothing="no_band")

    scores = {
        name: one.score for name, one in replace(judged, band=band.value).by_phenomenon().items()
    }
    return replace(
        found,
        measurements={
            **found.measurements,
            **{name: score for name, score in scores.items() if name in PHENOMENA},
        },
        figures=tuple(_score_bars(context, cases, scores)),
        facts={
            **found.facts,
            **_lowest(cases, scores, BETTER, "hardest"),
            **_lowest(cases, scores, ALIKE, "most_moved"),
            "band": band.value,
            "unit": band.unit,
            "band_source": "measured" if band.gaps else "fixed",
        },
        settings={**found.settings, "band": asdict(band)},
    )


def _are_shipped(cases: Cases) -> bool:
    """Whether these are the cases that ship, whatever the file is called."""
    return ships(BEHAVIOURS) and cases.texts_sha256 == read_cases(shipped(BEHAVIOURS)).texts_sha256


def _lowest(
    cases: Cases, scores: dict[str, Estimate], relation: Relation, fact: str
) -> dict[str, Any]:
    """The phenomenon of the lowest score of a relation, as facts; None where there is none."""
    own = [name for name, one in cases.phenomena.items() if one == relation]
    name = min(own, key=lambda one: scores[one].value, default=None)
    return {
        fact: None if name is None else phenomenon_name(name),
        f"{fact}_score": None if name is None else scores[name].value,
    }


def _score_bars(context: Context, cases: Cases, scores: dict[str, Estimate]) -> Iterator[Figure]:
    """`scores_better` and `scores_alike`: the score of each phenomenon, where there is one."""
    for relation in (BETTER, ALIKE):
        own = {name: scores[name] for name, one in cases.phenomena.items() if one == relation}
        if own:
            values = [one.value for one in own.values()]
            ends = [one.interval(context.resamples, context.seed) for one in own.values()]
            names = map(phenomenon_name, own)
            yield bars(f"scores_{relation}", names, {"case_score": (values, ends)})
