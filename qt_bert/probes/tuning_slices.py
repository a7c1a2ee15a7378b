"""Which slices and behaviour phenomena tuning improved or worsened, and which part carries a loss.

Read over the mixtures, as the base alone may have no classifier. `lost`: the best α < 1 of discovery is better on
validation than the tuned model. `gained`: not lost, and the mixture of α = 0.5 is worse. q is over both changes of
all slices. The part whose setting back helps most is chosen on discovery too. Of the cases one half chooses and
the other is measured on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np

from qt_bert.data.cases import read_cases, titles_then_others
from qt_bert.data.splits import Half, half_of
from qt_bert.probes.base import Result
from qt_bert.probes.behaviour import band_of
from qt_bert.probes.texts import texts_of
from qt_bert.probes.tuning_weights import Change, Trial, best_of, headings, part_name
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.results.probe import ResultTable, Row, Value
from qt_bert.scoring.behaviour import ScoredCases
from qt_bert.scoring.evaluate import SLICE_COLUMNS, automatic, by_column
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import BoolArray
from qt_bert.stats.comparison import metric_estimate
from qt_bert.stats.estimate import LEAST_QUERIES, Estimate, query_key
from qt_bert.text import Label, Text, join

HALF = 0.5
OUTCOMES = ("lost", "gained", "undecided")

Slice = Callable[[Change, Half], Estimate]
"""The metric of a slice or phenomenon, for one model on one half."""


def of_slices(trial: Trial) -> Result:
    """Every slice with enough queries; phenomena in a full run. Largest changes first."""
    slices = dict(pair_slices(trial))
    if trial.context.full:
        slices |= phenomena(trial)
    smaller = [alpha for alpha in trial.alphas if alpha < 1]
    best, gains, halves = dict[Label, float](), dict[Label, Estimate](), dict[Label, Estimate]()
    with trial.context.progress(len(slices), "slices") as shown:
        for name, measure in slices.items():
            alpha = best_of({alpha: measure(alpha, "discovery") for alpha in smaller})
            if alpha is not None:
                best[name] = alpha
                gains[name], halves[name] = (_gain(measure, a) for a in (alpha, HALF))
            shown.advance(1)
    tests = trial.tested([*gains.values(), *halves.values()])
    found: dict[str, list[Label]] = {outcome: [] for outcome in OUTCOMES}
    rows, settings = [], []
    texts = texts_of("tuning")
    for name, (q, sign), (_, half) in zip(gains, tests, tests[len(gains) :], strict=False):
        outcome, part, of_part = OUTCOMES[0 if sign > 0 else 1 if half < 0 else 2], None, None
        if outcome == "lost":
            part = best_of({part: slices[name](part, "discovery") for part in trial.models.parts})
            of_part = None if part is None else _gain(slices[name], part)
        found[outcome].append(name)
        word, in_words = texts.text(f"words.{outcome}"), part_name(part) if part else ""
        values = (
            *(Value(gains[name].n_queries), trial.context.cell(gains[name]), Value(q)),
            trial.context.cell(halves[name]),
            Value(None) if of_part is None else trial.context.cell(of_part),
        )
        rows.append(Row((name, word, f"{best[name]:g}", in_words), values))
        settings.append({"outcome": outcome, "alpha": best[name], "part": part})
    order = sorted(range(len(rows)), key=lambda at: -(rows[at].values[1].value or 0))
    return Result(
        tables=[
            ResultTable(
                name="slices",
                columns=headings(
                    *("slice", "outcome", "alpha", "part"),
                    *("queries", "change", "q", "half", "set_back"),
                ),
                rows=tuple(rows[at] for at in order),
            )
        ],
        facts={name: _names(found[name]) for name in ("lost", "gained")},
        settings={"slices": [settings[at] for at in order]},
    )


def _gain(measure: Slice, change: Change) -> Estimate:
    """On validation, less the tuned model."""
    return measure(change, "validation") - measure(1.0, "validation")


def _names(names: list[Label]) -> Text:
    return join(names) if names else texts_of("tuning").text("words.none")


def pair_slices(trial: Trial) -> dict[Label, Slice]:
    """The slices of the evaluation, without those of few validation queries."""
    halves, texts = trial.halves, texts_of("tuning")
    pairs = [pair for sample in halves.values() for pair in sample.pairs]
    masks: dict[Label, BoolArray] = {}
    for name, mask in automatic(pairs).items():
        kind, bound = re.findall(r"^(.+?)( [≤≥] \d+)?$", name)[0]
        masks[join([texts.label(f"words.{kind}", kind), bound], "", "")] = mask
    for column in SLICE_COLUMNS:
        if any(column in pair.extra for pair in pairs):
            masks |= {
                f"{column}: {value}": mask for value, mask in by_column(pairs, column).items()
            }

    def slice_of(rows: dict[Half, BoolArray]) -> Slice:
        def measure(change: Change, half: Half) -> Estimate:
            judged = trial.models.judged(change, halves[half]).subset(rows[half])
            return metric_estimate(judged, trial.metrics[0])

        return measure

    found = {}
    for label, mask in masks.items():
        parts = np.split(mask, [len(halves["discovery"].pairs)])
        rows: dict[Half, BoolArray] = dict(zip(halves, parts, strict=True))
        inside = zip(halves["validation"].pairs, rows["validation"], strict=True)
        queries = {query_key(pair.query) for pair, is_inside in inside if is_inside}
        if len(queries) >= LEAST_QUERIES and rows["discovery"].any():
            found[label] = slice_of(rows)
    return found


def phenomena(trial: Trial) -> dict[Label, Slice]:
    """The phenomena of the cases by (right − wrong) / cases, without those of few queries."""
    band, path = band_of(trial.context), trial.context.request.cases
    if band is None or path is None:
        return {}
    listed = read_cases(path).listed

    @cache
    def scored(change: Change, half: Half) -> dict[str, ScoredCases]:
        cases = tuple(case for case in listed if half_of(case.query) == half)
        logits = trial.models.logits(change, titles_then_others(cases))
        titles, others = np.split(ranking_scores(logits, trial.context.model.settings.labels), 2)
        return ScoredCases(cases, titles, others, band.value).by_phenomenon()

    def slice_of(name: str) -> Slice:
        return lambda change, half: scored(change, half)[name].score

    discovery, validation = scored(1.0, "discovery"), scored(1.0, "validation")
    return {
        phenomenon_name(name): slice_of(name)
        for name, cases in validation.items()
        if name in discovery and cases.score.n_queries >= LEAST_QUERIES
    }
