"""Which differences between titles does the model tell, and what moves it that must not? (ABNIRML, 3)

A case is a query with two titles; Δ is the score of the first less that of the second, the expected
grade or the one logit. Of `better` cases a Δ above the band is right, one below minus the band wrong,
the rest undecided; of `alike` ones a Δ within the band is right, else wrong. A phenomenon's score is
(right − wrong) / cases (MacAvaney et al. 2022). Nothing is chosen, so that all cases count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from qt_bert.data.cases import ALIKE, BETTER, Cases, Relation, read_cases, titles_then_others
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import sample_queries
from qt_bert.errors import PairFileError
from qt_bert.figures import Figure, bars
from qt_bert.probes.base import Context, Result
from qt_bert.probes.contests import POINTS
from qt_bert.results.head_sets import PHENOMENA, phenomenon_name
from qt_bert.scoring.behaviour import Band, Judged, fixed_band, measured_band, ranked_pairs
from qt_bert.scoring.judge import ranking_scores
from qt_bert.scoring.slices import character_overlap
from qt_bert.shipped import BEHAVIOURS, shipped, ships
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, over_queries


def higher(deltas: FloatArray) -> FloatArray:
    """1 where the first title is higher, ½ where the two are equal, else 0 [n]."""
    return np.asarray((1 + np.sign(deltas)) / 2)


QUICK_PAIRS = 400
"""Of those that the band is measured on."""


def band_of(context: Context) -> Band | None:
    """`fixed_band`; of one logit `measured_band`, on `--band-from` or, by default, discovery.

    None where no query there has two titles. Raises PairFileError where the user's own file has none.
    """
    fixed = fixed_band(context.model.checkpoint.settings.labels)
    if fixed is not None:
        return fixed
    given = context.request.band_from
    read = context.discovery if given is None else list(context.request.reader.open(given))
    pairs = ranked_pairs(read)
    if not pairs:
        if given is not None:
            raise PairFileError(f"{given}: no query of two titles to measure the band on")
        return None
    pairs = sample_queries(pairs, context.choose(QUICK_PAIRS, len(pairs)), context.seed)
    name = (given or context.request.discovery_file).name
    return measured_band(scores_of(context, pairs), [pair.query for pair in pairs], name)


def scores_of(context: Context, pairs: Sequence[Pair]) -> FloatArray:
    """The model's expected grades of `pairs`, or its one logit [pairs]."""
    with context.progress(len(pairs), "pairs") as shown:
        logits = context.model.fresh().logits([(p.query, p.title) for p in pairs], shown)
    return ranking_scores(logits, context.model.checkpoint.settings.labels)


# The probe.


def measure(context: Context) -> Result:
    """Score all cases, and each phenomenon where there is a band."""
    cases = read_cases(context.request.cases or shipped(BEHAVIOURS))
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
