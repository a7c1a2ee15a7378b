"""`qt-bert calibrate`: fitted on some queries, shown on others, saved where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from qt_bert.codec import encode
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import half_of, split_halves
from qt_bert.errors import ArgumentError
from qt_bert.files import check_apart, sha256_file, write_json
from qt_bert.models.card import CARD, ModelLabels, store_calibration
from qt_bert.models.folder import MANIFEST, write_manifest
from qt_bert.scoring.asked import CalibrateOptions
from qt_bert.scoring.judge import (
    AnyCalibration,
    Judged,
    PairScorer,
    judge_file,
    judge_logits,
)
from qt_bert.scoring.slices import by_column
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.calibration import (
    Calibration,
    ScoreCalibration,
    choose_cut,
    cutoffs_on_scores,
    fit_cutoffs,
    fit_level_temperature,
    fit_scores,
    fit_temperature,
    query_intervals,
)
from qt_bert.stats.comparison import compare
from qt_bert.stats.evaluation import evaluate, reliability
from qt_bert.stats.judgements import Judgements, judge_grades, known, name_set, read_labels
from qt_bert.stats.metrics import METRICS, Metric, Text, additive, sums_by_query

# How good a cut is: metrics of two levels, not relevant and relevant.


def _counts(judged: Judgements) -> FloatArray:
    """Of each query: relevant pairs that are taken, pairs that are taken, relevant pairs [Q, 3]."""
    taken, relevant = known(judged.predicted) == 1, known(judged.truth) == 1
    return sums_by_query(judged, taken & relevant, taken, relevant)


AT_A_CUT = tuple(
    Metric(
        name=name,
        title=Text(zh, name),
        description=Text(zh, name),
        estimator=additive(_counts, formula),
        undefined="no pair is taken, or none is relevant",
    )
    for name, zh, formula in (
        ("precision", "精确率", lambda n: ratio(n[:, 0], n[:, 1])),
        ("recall", "召回率", lambda n: ratio(n[:, 0], n[:, 2])),
        ("f1", "F1", lambda n: ratio(2 * n[:, 0], n[:, 1] + n[:, 2])),
    )
)
OF_GRADES = ("accuracy", "macro_f1", "qwk", "mae", "ece", "brier", "nll")
OF_LEVELS = ("accuracy", "qwk", "mae", "within_one", "ece", "nll")
FEWEST = 20
"""Pairs of a slice, relevant and not, for a cut of its own."""
CUTOFF_RESAMPLES = 200
"""For the intervals of grade cut-offs: each resample is a search of its own."""


# Fitting, by what the model gives: a temperature of several logits, the meaning of one.


def fit(judged: Judged, labels: ModelLabels, asked: CalibrateOptions) -> AnyCalibration:
    """The calibration of a model whose logits mean `labels`.

    Of several logits: a temperature, then cut-offs on the tempered expected grade (or level) that maximise
    QWK, where the labels are the model's own levels (coarser ones say nothing of where one output ends).
    Raises ArgumentError for labels that share no levels with the model, and as `fit_scores` does.
    """
    sets, truth = [known(pair.grades) for pair in judged.pairs], judged.judgements.truth
    if labels.logits == 1:
        how: Any = {name: getattr(asked, name) for name in ("method", "relevant", "aim", "least")}
        return fit_scores(judged.logits[:, 0], sets, **how)
    if truth is None:
        raise ArgumentError(
            "the labels overlap, so they share no levels with the model; calibrate on exact grades, or on "
            "labels that do not overlap"
        )
    if labels.grades is None:
        temperature = fit_level_temperature(judged.logits, truth)
    else:
        temperature = fit_temperature(judged.logits, sets, model_grades=labels.grades)
    tempered = judge_logits(judged.logits, judged.pairs, labels, Calibration(temperature, ()))
    if len(tempered.levels) != labels.logits:
        return Calibration(temperature, ())
    cutoffs = fit_cutoffs(tempered.expected, truth, n_levels=labels.logits)
    return Calibration(temperature, cutoffs)


def calibrate_model(
    path: Path,
    options: ReaderOptions,
    scorer: PairScorer,
    asked: CalibrateOptions,
    *,
    rejects_path: Path | None = None,
) -> dict[str, Any]:
    """Fit on half of the queries of `path`, show what that changes on the other half, save it as asked.

    With `asked.test`, a file that is read alike, all of `path` is fitted on, and of `test` those queries
    are shown that `path` has not. Before, one logit is read as the log-odds of being relevant, and what
    lies above 0 as relevant. Gives what is written (docs/formats.md). Raises ArgumentError and
    PairFileError for what cannot be fitted, shown or saved.
    """
    for read in (path, asked.test):
        if asked.out is not None and read is not None:
            check_apart(asked.out, read)
    if asked.save and not (scorer.folder / "config.json").is_file():
        raise ArgumentError(f"--save: {scorer.folder} is no model folder; give --out FILE")
    fitted, shown = _fitted_and_shown(path, options, scorer, asked.test, rejects_path)
    labels = scorer.settings.labels
    found = fit(fitted, labels, asked)
    more: dict[str, Any] = {}
    if isinstance(found, ScoreCalibration):
        scores = shown.logits[:, 0].astype(np.float64)
        before, after = (
            _of_relevance(shown, found, p) for p in (expit(scores), found.relevance(scores))
        )
        # Whether it is taken says how good the cut is; that it is relevant, how true its probability is.
        cuts = before.with_predicted(scores > 0), after.with_predicted(scores >= found.cut)
        compared: Compared = [(*cuts, AT_A_CUT), (before, after, ("ece", "brier", "nll"))]
        graded = judge_logits(shown.logits, shown.pairs, labels, found)
        measured = evaluate(graded, resamples=asked.resamples, seed=asked.seed).metrics
        more["relevant"] = name_set(found.sides[1])
        more |= _cuts(found, fitted, asked)
        more["levels"] = {name: measured[name].to_json() for name in OF_LEVELS}
    else:
        before, after = shown.judgements, judge_logits(shown.logits, shown.pairs, labels, found)
        compared = [(before, after, OF_GRADES)]
    changes = _changes(compared, asked)
    slices: dict[str, Any] = {}
    for column in asked.by or ():
        slices[column] = {}
        for value, rows in by_column(shown.pairs, column).items():
            one = {"n_pairs": int(rows.sum()), "changes": _changes(compared, asked, rows)}
            if isinstance(found, ScoreCalibration):
                none = np.zeros(len(fitted.pairs), bool)
                own = by_column(fitted.pairs, column).get(value, none)
                one |= _cuts(found, fitted, asked, np.flatnonzero(own))
            slices[column][value] = one
    made = {
        "schema": 1,
        "kind": "calibration",
        "model": scorer.describe(),
        "fitted": _named(path, fitted),
        "shown": _named(asked.test or path, shown),
        "calibration": found.to_json() if isinstance(found, Calibration) else encode(found),
        **more,
        "changes": changes,
        "reliability": {"before": reliability(before), "after": reliability(after)},
        "slices": slices,
        "warnings": worse(changes, asked),
    }
    if asked.out is not None:
        write_json(asked.out, made)
    if asked.save:
        _save(made["calibration"], scorer.folder)
    return made


def _fitted_and_shown(
    path: Path, options: ReaderOptions, scorer: PairScorer, test: Path | None, rejects: Path | None
) -> tuple[Judged, Judged]:
    every = judge_file(path, options, scorer, rejects_path=rejects)
    if test is None:
        split_halves(every.pairs)  # refuses a half without pairs
        chosen = np.array([half_of(pair.query) == "discovery" for pair in every.pairs])
        return _some(every, chosen, scorer), _some(every, ~chosen, scorer)
    other = judge_file(test, options, scorer)
    seen = {pair.query for pair in every.pairs}
    new = np.array([pair.query not in seen for pair in other.pairs])
    if not new.any():
        raise ArgumentError(f"--test {test}: {path} has all of its queries; name other queries")
    return every, _some(other, new, scorer)


def _some(judged: Judged, rows: BoolArray, scorer: PairScorer) -> Judged:
    """Some of the pairs, judged at levels of their own."""
    pairs = [pair for pair, kept in zip(judged.pairs, rows, strict=True) if kept]
    logits = judged.logits[rows]
    judgements = judge_logits(logits, pairs, scorer.settings.labels)
    return Judged(pairs, logits, judgements, judged.rejected)


def _cuts(
    found: ScoreCalibration, fitted: Judged, asked: CalibrateOptions, own: IntArray | None = None
) -> dict[str, Any]:
    """The cut of one logit and its cut-offs into grades, with intervals over the queries fitted on; or the
    cut that a slice's `own` pairs [places] would have."""
    rows = np.arange(len(fitted.pairs)) if own is None else own
    scores = fitted.logits[rows, 0].astype(np.float64)
    truth = read_labels([known(pair.grades) for pair in fitted.pairs]).index[rows]
    _, queries = np.unique(fitted.judgements.query_index[rows], return_inverse=True)
    relevant = truth >= found.relevant

    def cut_of(drawn: IntArray) -> float:
        return choose_cut(scores[drawn], relevant[drawn], asked.aim, asked.least)  # type: ignore[arg-type]

    if min(relevant.sum(), (~relevant).sum()) < FEWEST and own is not None:
        return {"reason": f"fewer than {FEWEST} pairs to fit on, relevant or not"}
    cut = [found.cut if own is None else cut_of(np.arange(len(rows)))]
    if np.isnan(cut[0]):
        return {"reason": f"no cut reaches this {asked.aim}"}
    (at,) = query_intervals(cut, cut_of, queries, asked.resamples, asked.seed)
    if own is not None:
        return {"cut": at}

    def cutoffs_of(drawn: IntArray) -> tuple[float, ...]:
        return cutoffs_on_scores(found, scores[drawn], truth[drawn])

    fewer = min(asked.resamples, CUTOFF_RESAMPLES)
    cutoffs = query_intervals(found.cutoffs, cutoffs_of, queries, fewer, asked.seed)
    return {"cut": at, "cutoffs": cutoffs}


def _of_relevance(judged: Judged, found: ScoreCalibration, p: FloatArray) -> Judgements:
    """Judgements of two levels, not relevant and relevant, of pairs that are all said to be relevant."""
    sets, queries = zip(*((known(pair.grades), pair.query) for pair in judged.pairs), strict=True)
    both = judge_grades(np.stack([1 - p, p], axis=1), sets, queries, model_grades=found.sides)
    if both.levels != tuple(map(name_set, found.sides)):
        raise ArgumentError(
            f"labels to show it on lie across the cut between {' and '.join(map(name_set, found.sides))}; "
            "take labels as fine as those it is fitted on"
        )
    return both.with_predicted(np.ones(len(p), np.int64))


Compared = Sequence[tuple[Judgements, Judgements, Sequence[str | Metric]]]


def _changes(
    compared: Compared, asked: CalibrateOptions, rows: BoolArray | None = None
) -> dict[str, Any]:
    """Metrics before and after with the paired difference, of all pairs or those of `rows`."""
    found: dict[str, Any] = {}
    for *both, metrics in compared:
        a, b = (one if rows is None else one.subset(rows) for one in both)  # type: ignore[union-attr]
        drawn = {"resamples": asked.resamples, "seed": asked.seed, "draws": 0}
        made = compare(a, b, metrics=metrics, most_different=0, **drawn)  # type: ignore[arg-type]
        found |= {name: asdict(one) for name, one in made.metrics.items()}
    return found


def worse(changes: Mapping[str, Any], asked: CalibrateOptions) -> list[str]:
    """A sentence for each metric that is worse after than before, or misses what was asked for.

    Where a precision or a recall is asked for, the other is its price and no fault.
    """
    told = []
    for name, one in changes.items():
        a, b, change = one["value_a"], one["value_b"], one["difference"]
        lower = name in METRICS and METRICS[name].direction == "lower"
        if asked.least is not None and name in ("precision", "recall", "f1"):
            if name == asked.aim and (b is None or b < asked.least):
                there = "undefined" if b is None else f"{b:.3f}"
                told.append(f"{name} is {there} on the pairs shown, {asked.least:g} was asked for")
        elif change and (change > 0) == lower and name not in ("precision", "recall"):
            facing = one["ci_low" if lower else "ci_high"]
            sure = facing is not None and (facing > 0) == lower and facing != 0
            chance = "" if sure else " (within chance)"
            told.append(
                f"{name} is worse with the calibration: {a:.3f} before, {b:.3f} after{chance}"
            )
    return told


def _named(path: Path, judged: Judged) -> dict[str, Any]:
    counts = {"n_pairs": len(judged.pairs), "n_queries": judged.judgements.n_queries}
    return {"name": path.name, "sha256": sha256_file(path), **counts}


def _save(calibration: Mapping[str, Any], folder: Path) -> None:
    listed = (folder / MANIFEST).exists()
    if listed:  # unlisted while it changes, so that a kill leaves a folder that opens
        write_manifest(folder, without=CARD)
    store_calibration(folder, calibration)
    if listed:
        write_manifest(folder)
