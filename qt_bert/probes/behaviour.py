"""Which differences between titles does the model detect, which should it ignore? (ABNIRML, 3)

A case is a query with two titles; Δ is the score of the first less that of the second (expected grade,
or the one logit). A `better` case is right with Δ above the band, wrong with Δ below minus the band, else
undecided; an `alike` case is right with |Δ| within the band, else wrong. A phenomenon's score is
(right − wrong) / cases (MacAvaney et al. 2022), over all cases; the claim takes the validation half of the
queries, as the other half may choose a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from qt_bert.data.cases import ALIKE, BETTER, Cases, Relation, read_cases, titles_then_others
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import half_of, sample_queries
from qt_bert.errors import PairFileError
from qt_bert.figures import Figure
from qt_bert.probes.base import Context, Result, estimate_bars
from qt_bert.probes.contests import POINTS
from qt_bert.results.head_sets import PHENOMENA, phenomenon_name
from qt_bert.scoring.behaviour import Band, ScoredCases, fixed_band, measured_band, ranked_pairs
from qt_bert.scoring.evaluate import character_overlap
from qt_bert.scoring.judge import ranking_scores
from qt_bert.shipped import BEHAVIOURS, shipped, ships
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, over_queries


def higher(deltas: FloatArray) -> FloatArray:
    """1 where the first title is higher, ½ where the two are equal, else 0 [n]."""
    return np.asarray((1 + np.sign(deltas)) / 2)


QUICK_PAIRS = 400
"""Of those that the band is measured on."""


def band_of(context: Context) -> Band | None:
    """`fixed_band`; for one logit `measured_band`, on `--band-from` or, by default, discovery.

    None where no query of discovery has two titles. Raises PairFileError where none of the file has.
    """
    fixed = fixed_band(context.model.checkpoint.settings.labels)
    if fixed is not None:
        return fixed
    path = context.request.band_from
    pairs = ranked_pairs(
        context.discovery if path is None else list(context.request.reader.open(path))
    )
    if not pairs:
        if path is not None:
            raise PairFileError(f"{path}: no query has two titles, so the band cannot be measured")
        return None
    pairs = sample_queries(pairs, context.choose(QUICK_PAIRS, len(pairs)), context.seed)
    name = (path or context.request.discovery_file).name
    return measured_band(scores_of(context, pairs), [pair.query for pair in pairs], name)


def scores_of(context: Context, pairs: Sequence[Pair]) -> FloatArray:
    """The model's expected grades of `pairs`, or its one logit [pairs]."""
    with context.progress(len(pairs), "pairs") as shown:
        logits = context.model.fresh().logits([(p.query, p.title) for p in pairs], shown)
    return ranking_scores(logits, context.model.checkpoint.settings.labels)


# The probe.


def measure(context: Context) -> Result:
    """Score all cases, and each phenomenon if there is a band."""
    cases = read_cases(context.request.cases or shipped(BEHAVIOURS))
    pairs = titles_then_others(cases.listed)
    titles, others = np.split(scores_of(context, pairs), 2)
    scored = ScoredCases(cases.listed, titles, others, 0.0)

    # One half of the cases may choose a checkpoint; the other is read.
    validation = np.array([half_of(query) == "validation" for query in scored.queries], bool)
    better = scored.where(scored.better & validation)
    overlaps = np.array(
        [
            character_overlap(case.query, case.title) - character_overlap(case.query, case.other)
            for case in better.cases
        ]
    )
    by_model = over_queries(higher(better.deltas), better.queries)
    by_characters = over_queries(higher(overlaps), better.queries)
    claim = POINTS * (by_model - by_characters) if _are_shipped(cases) else "precondition:cases"
    result = Result(
        claims={"told": claim},
        measurements={"ranked_higher": by_model, "ranked_higher_by_characters": by_characters},
        facts={
            "file": cases.path.name,
            "cases": len(cases.listed),
            "judged": len(better.cases),
            "phenomena": len(cases.phenomena),
        },
        settings={"cases": {"file": cases.path.name, "texts_sha256": cases.texts_sha256}},
        pairs=pairs,
    )
    band = band_of(context)
    if band is None:
        return replace(result, nothing="no_band")

    phenomena = replace(scored, band=band.value).by_phenomenon()
    scores = {name: of_phenomenon.score for name, of_phenomenon in phenomena.items()}
    return replace(
        result,
        measurements={
            **result.measurements,
            **{name: score for name, score in scores.items() if name in PHENOMENA},
        },
        figures=tuple(_score_bars(context, cases, scores)),
        facts={
            **result.facts,
            **_lowest(cases, scores, BETTER, "hardest"),
            **_lowest(cases, scores, ALIKE, "most_moved"),
            "band": band.value,
            "unit": band.unit,
            "band_source": "measured" if band.gaps else "fixed",
        },
        settings={**result.settings, "band": asdict(band)},
    )


def _are_shipped(cases: Cases) -> bool:
    """Whether these are the shipped cases, whatever the file's name."""
    return ships(BEHAVIOURS) and cases.listed == read_cases(shipped(BEHAVIOURS)).listed


def _lowest(
    cases: Cases, scores: dict[str, Estimate], relation: Relation, fact: str
) -> dict[str, Any]:
    """The phenomenon with a relation's lowest score, as facts; None without such cases."""
    names = [name for name, of_name in cases.phenomena.items() if of_name == relation]
    name = min(names, key=lambda name: scores[name].value, default=None)
    return {
        fact: None if name is None else phenomenon_name(name),
        f"{fact}_score": None if name is None else scores[name].value,
    }


def _score_bars(context: Context, cases: Cases, scores: dict[str, Estimate]) -> Iterator[Figure]:
    """`scores_better` and `scores_alike`: the score of each phenomenon."""
    for relation in (BETTER, ALIKE):
        names = [name for name, of_name in cases.phenomena.items() if of_name == relation]
        if names:
            series = {"case_score": [scores[name] for name in names]}
            labels = [phenomenon_name(name) for name in names]
            yield estimate_bars(context, f"scores_{relation}", labels, series)
