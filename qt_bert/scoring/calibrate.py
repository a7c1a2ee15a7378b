"""Fitting a calibration on a dev file and saving it in the model's `qt_bert.json`."""

from __future__ import annotations

from pathlib import Path

from qt_bert.encoder.card import CARD, store_calibration
from qt_bert.encoder.manifest import MANIFEST, write_manifest
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.calibration import (
    Calibration,
    fit_cutoffs,
    fit_level_temperature,
    fit_temperature,
)
from qt_bert.pairs import ReaderOptions
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_file, judge_logits


def calibrate_model(
    path: Path, options: ReaderOptions, scorer: Scorer, *, rejects_path: Path | None = None
) -> Calibration:
    """Fit temperature, then cut-offs on the tempered expected grade (or level), and save both.

    Cut-offs maximise QWK and are fitted only where the labels are the model's own levels (labels
    coarser than these say nothing of where one output ends). Raises ArgumentError for a one-logit
    model, or labels that share no levels with it.
    """
    checkpoint = scorer.checkpoint
    labels = checkpoint.settings.labels
    if labels.logits == 1:
        raise ArgumentError(f"{checkpoint.name} has one logit: there is nothing to calibrate")
    judged = judge_file(path, options, scorer, rejects_path=rejects_path)
    if judged.judgements.truth is None:
        raise ArgumentError(
            f"{path}: its labels overlap, so they share no levels with the model; calibrate on "
            "exact grades, or on labels that do not overlap"
        )
    if labels.grades is None:
        temperature = fit_level_temperature(judged.logits, judged.judgements.truth)
    else:
        sets = [pair.grades or () for pair in judged.pairs]
        temperature = fit_temperature(judged.logits, sets, model_grades=labels.grades)
    tempered = judge_logits(judged.logits, judged.pairs, labels, Calibration(temperature, ()))
    cutoffs: tuple[float, ...] = ()
    if len(tempered.levels) == labels.logits:
        cutoffs = fit_cutoffs(tempered.expected, judged.judgements.truth, n_levels=labels.logits)
    found = Calibration(temperature, cutoffs)
    _save(found, checkpoint.folder)
    return found


def _save(found: Calibration, folder: Path) -> None:
    listed = (folder / MANIFEST).exists()
    if listed:  # unlisted while it changes, so that a kill leaves a folder that opens
        write_manifest(folder, without=CARD)
    store_calibration(folder, found.to_json())
    if listed:
        write_manifest(folder)
