"""`qt-bert calibrate`: fit on half of the queries, report on the others, save on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from qt_bert.codec import encode
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import halves_of, split_halves
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file, write_json
from qt_bert.models.card import CARD, ModelLabels, store_calibration
from qt_bert.models.folder import MANIFEST, FolderHashes, write_manifest
from qt_bert.scoring.evaluate import by_column
from qt_bert.scoring.judge import DRAWN, JudgedFile, PairScorer, judge_file, judge_logits
from qt_bert.stats.arrays import BoolArray, IntArray, ratio
from qt_bert.stats.calibration import (
    Calibration,
    ScoreCalibration,
    find_cuts,
    fit_cutoffs,
    fit_level_temperature,
    fit_scores,
    fit_temperature,
    query_intervals,
)
from qt_bert.stats.comparison import compare
from qt_bert.stats.estimate import LEAST_QUERIES, RESAMPLES
from qt_bert.stats.evaluation import evaluate, reliability
from qt_bert.stats.judgements import Judgements, judge_levels, known, name_set, read_labels
from qt_bert.stats.metrics import METRICS, Metric, additive, confusion_by_query
from qt_bert.text import Text

# For two levels, not relevant and relevant, with the flat confusion matrix n = tn, fp, fn, tp.
AT_A_CUT = tuple(
    Metric(
        name=name,
        title=Text(zh, name),
        description=Text(zh, name),
        estimator=additive(confusion_by_query, formula),
    )
    for name, zh, formula in (
        ("precision", "精确率", lambda n: ratio(n[:, 3], n[:, 1] + n[:, 3])),
        ("recall", "召回率", lambda n: ratio(n[:, 3], n[:, 2] + n[:, 3])),
        ("f1", "F1", lambda n: ratio(2 * n[:, 3], n[:, 1] + n[:, 2] + 2 * n[:, 3])),
    )
)
OF_GRADES = ("accuracy", "macro_f1", "qwk", "mae", "ece", "brier", "nll")
PROBABILITY = "a probability"
"""What one logit is read as before, where all lie in 0..1."""
RESAMPLED = 200
"""Resamples for the intervals of cuts, each of which is a search."""
OVERLAPPING = "the labels overlap, or are all one, so they are no levels; calibrate on others"


def calibrate_model(
    path: Path,
    options: ReaderOptions,
    scorer: PairScorer,
    *,
    method: str = "platt",
    precision: float | None = None,
    recall: float | None = None,
    by: Sequence[str] = (),
    out: Path | None = None,
    save: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
    rejects_path: Path | None = None,
) -> dict[str, Any]:
    """Fit on half of the queries of `path`, compare before and after on the other half, and save.

    Several logits get a temperature and cut-offs; one logit, read before as the probability of relevance where
    all lie in 0..1, else as its log-odds, a calibration by `fit_scores`. Slices have their own cuts. Returns the
    content of `out` (docs/formats.md). Raises ArgumentError and PairFileError for what cannot be fitted, compared
    or saved.
    """
    if precision is not None and recall is not None:
        raise ArgumentError("--precision and --recall: a cut is chosen by one of them; give one")
    if out is not None and out.exists():
        raise ArgumentError(f"--out {out} is there already; name another file or remove it")
    checkpoint = getattr(scorer, "checkpoint", None)
    if save and checkpoint is None:
        raise ArgumentError(
            f"--save: {scorer.name} is no model's folder and stays as it is; give --out FILE"
        )
    judged = judge_file(path, options, scorer, rejects_path=rejects_path, numbers=False)
    split_halves(judged.pairs)  # refuses a half without pairs
    fitted = np.array(halves_of(pair.query for pair in judged.pairs)) == "discovery"
    labels, targets = scorer.settings.labels, {"precision": precision, "recall": recall}
    calibration: Any
    read_as: str | None = None
    metrics: Sequence[str | Metric] = OF_GRADES
    if labels.logits > 1:
        calibration = _fit_temperature(judged, labels, fitted)
        before = judge_logits(judged.logits, judged.pairs, labels)  # without drawn_p
        graded = after = judge_logits(judged.logits, judged.pairs, labels, calibration)
    else:
        scores = judged.judgements.ranking_score
        read_as = PROBABILITY if scores.min() >= 0 and scores.max() <= 1 else "log-odds"
        calibration, before, after, cuts_of = _fit_score(judged, fitted, method, targets, read_as)
        graded = judge_logits(judged.logits, judged.pairs, labels, calibration)
        metrics = (*AT_A_CUT, "ece", "brier", "nll")

    def compared(rows: BoolArray) -> dict[str, Any]:
        """Metrics of some pairs before and after; for one logit also the cuts fitted on those pairs."""
        both = (judgements.subset(rows & ~fitted) for judgements in (before, after))
        changes = compare(
            *both, metrics=metrics, resamples=resamples, seed=seed, draws=0, most_different=0
        ).metrics
        places, cuts = np.flatnonzero(rows & fitted), dict[str, Any]()
        if labels.logits == 1 and len(places):
            intervals = query_intervals(cuts_of, before.query_index, places, RESAMPLED, seed)
            names = ("relevant", *map(name_set, calibration.grades[1:]))
            cuts = dict(zip(names, intervals, strict=True))
        return {
            "n_pairs": int((rows & ~fitted).sum()),
            "cuts": cuts,
            "changes": encode(changes),
        }

    overall = compared(np.ones(len(fitted), bool))
    grades = evaluate(graded.subset(~fitted), resamples=resamples, seed=seed).metrics
    slices = {
        column: {
            value: compared(rows)
            for value, rows in by_column(judged.pairs, column).items()
            if (rows & ~fitted).any()
        }
        for column in by
    }
    file = {"name": path.name, "sha256": sha256_file(path)}
    result = {
        "schema": 1,
        "kind": "calibration",
        "model": scorer.describe(),
        "pairs": file | {"fitted": int(fitted.sum())},
        "calibration": encode(calibration),
        **overall,
        "grades": {name: encode(grades[name]) for name in OF_GRADES},
        "reliability": encode([reliability(side.subset(~fitted)) for side in (before, after)]),
        "slices": slices,
        "before": read_as,
        "warnings": [
            *worse(overall["changes"], targets),
            *_unsafe(judged, before.query_index[fitted]),
        ],
    }
    if out is not None:
        write_json(out, result)
    if save and checkpoint is not None:
        checkpoint.hashes.check(".safetensors")
        has_manifest = (checkpoint.folder / MANIFEST).exists()
        if has_manifest:  # without the card that changes: a kill leaves a folder that opens
            write_manifest(checkpoint.folder, without=CARD)
        stored = encode(calibration) | {"weights": checkpoint.sha256, "pairs": file}
        store_calibration(checkpoint.folder, stored)
        if has_manifest:
            write_manifest(checkpoint.folder)
        checkpoint.settings = replace(checkpoint.settings, calibration=stored)
        checkpoint.hashes = FolderHashes(checkpoint.folder)
    return result


def _fit_temperature(judged: JudgedFile, labels: ModelLabels, fitted: BoolArray) -> Calibration:
    """A temperature, then cut-offs on the tempered expected grade (or level) that maximise QWK, where the
    labels are as fine as the model's levels."""
    if judged.judgements.truth is None:
        raise ArgumentError(OVERLAPPING)
    truth, logits = judged.judgements.truth[fitted], judged.logits[fitted]
    if labels.grades is None:
        temperature = fit_level_temperature(logits, truth)
    else:
        sets = [known(judged.pairs[i].grades) for i in np.flatnonzero(fitted)]
        temperature = fit_temperature(logits, sets, model_grades=labels.grades)
    calibration = Calibration(temperature, ())
    if len(judged.judgements.levels) != labels.logits:
        return calibration
    tempered = judge_logits(judged.logits, judged.pairs, labels, calibration).expected[fitted]
    return replace(calibration, cutoffs=fit_cutoffs(tempered, truth, n_levels=labels.logits))


def _fit_score(
    judged: JudgedFile,
    fitted: BoolArray,
    method: str,
    targets: Mapping[str, float | None],
    read_as: str,
) -> tuple[ScoreCalibration, Judgements, Judgements, Callable[[IntArray], list[float]]]:
    """The calibration, relevance judgements before and after, and a function rows → their cuts."""
    labels, ranked = read_labels([known(pair.grades) for pair in judged.pairs]), judged.judgements
    if labels.kind == "overlapping":
        raise ArgumentError(OVERLAPPING)
    scores, truth = ranked.ranking_score, labels.index
    relevant = (ranked.ranking_truth >= ranked.auc_cut).astype(int).tolist()
    first = int((np.unique(ranked.ranking_truth) < ranked.auc_cut).sum())
    # 1 − expit(s) would be 0 from s = 37 on.
    read = (1 - scores, scores, 0.5) if read_as == PROBABILITY else (*expit([-scores, scores]), 0.0)
    calibration = fit_scores(
        scores[fitted], truth[fitted], labels.sets, first, method=method, **targets
    )
    queries, p = [pair.query for pair in judged.pairs], calibration.relevance(scores)
    before, after = (
        judge_levels(np.stack(table, axis=1), relevant, queries).with_predicted(scores >= cut)
        for *table, cut in (read, (1 - p, p, calibration.cut))
    )

    def cuts_of(rows: IntArray) -> list[float]:
        return find_cuts(calibration, scores[rows], truth[rows], **targets)

    return calibration, before, after, cuts_of


def _unsafe(judged: JudgedFile, queries: IntArray) -> list[str]:
    """Warnings of what the fit rests on."""
    warnings = []
    if (few := len(np.unique(queries))) < LEAST_QUERIES:
        warnings.append(f"fitted on {few} queries alone")
    if any(DRAWN in pair.extra for pair in judged.pairs):
        warnings.append(f"{DRAWN} does not count here; calibrate on labels drawn evenly")
    return warnings


def worse(changes: Mapping[str, Any], targets: Mapping[str, float | None]) -> list[str]:
    """A warning for each metric that got worse, or misses its target.

    Of precision, recall and F1, which trade off, only the one that chose the cut is checked.
    """
    warnings = []
    aim = next((name for name, least in targets.items() if least is not None), "f1")
    for name, change in changes.items():
        a, b, least = (change["value_a"] or 0.0, change["value_b"] or 0.0, targets.get(name))
        lower = name in METRICS and METRICS[name].direction == "lower"
        if least is not None and b < least:
            warnings.append(f"{name} is {b:.3f} on the pairs shown, below the target {least:g}")
        elif least is None and (name in METRICS or name == aim) and (a < b if lower else b < a):
            warnings.append(f"{name} is worse with the calibration: {a:.3f} before, {b:.3f} after")
    return warnings
