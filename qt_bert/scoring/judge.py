"""A checkpoint's outputs beside the labels of a file: the judgements every metric sees."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.evaluation import Judgements, judge_grades, judge_levels, judge_scores
from qt_bert.evaluation.calibration import Calibration, apply_cutoffs, apply_temperature
from qt_bert.pairs import GradeMap, LevelMap, Pair, ReaderOptions
from qt_bert.pairs.grades import LabelScheme
from qt_bert.progress import progress

if TYPE_CHECKING:
    from qt_bert.encoder import ModelLabels
    from qt_bert.scoring.bulk import Scorer


@dataclass(frozen=True)
class Judged:
    """Graded pairs of a file, the logits [n, K] one model gave them, and how they are judged."""

    pairs: list[Pair]
    logits: np.ndarray
    judgements: Judgements
    rejected: int
    calibration: Calibration | None = None


def judge_file(
    path: Path,
    options: ReaderOptions,
    scorer: Scorer,
    *,
    calibration: Calibration | None = None,
    rejects_path: Path | None = None,
) -> Judged:
    """Read the graded pairs of `path`, score them, and judge them at levels model and labels share.

    Raises PairFileError where rows have no label or a
    bad one (above `--max-rejects`), ArgumentError where labels and model do not fit.
    """
    pairs, rejected = graded_pairs(
        path, options, scorer.checkpoint.settings.labels, rejects_path=rejects_path
    )
    with progress(len(pairs), "scoring", "pairs") as shown:
        logits = scorer.logits([(p.query, p.title) for p in pairs], shown)
    labels = scorer.checkpoint.settings.labels
    judgements = judge_logits(logits, pairs, labels, calibration)
    return Judged(pairs, logits, judgements, rejected, calibration)


def graded_pairs(
    path: Path,
    options: ReaderOptions,
    labels: ModelLabels,
    *,
    rejects_path: Path | None = None,
    most: int | None = None,
) -> tuple[list[Pair], int]:
    """The pairs of `path` with their labels read as this model can be judged by, and the rejects.

    Reading ends after `most` pairs, where it is given.
    """
    reader = options.open(
        path,
        default_map=default_scheme(labels),
        grade_required=True,
        rejects_path=rejects_path,
    )
    try:
        with closing(iter(reader)) as rows:
            return list(islice(rows, most)), reader.rejected
    except PairFileError as error:
        if options.grades is None and (reader.reasons.get("bad grade") or 0) > 0:
            raise PairFileError(
                f"{error}; if the file's labels are no grades 1-5, say what they mean with "
                "--grades, such as --grades '0=1-2,1=3-4,2=5'"
            ) from error
        raise


def judge_logits(
    logits: np.ndarray,
    pairs: list[Pair],
    labels: ModelLabels,
    calibration: Calibration | None = None,
) -> Judgements:
    """Judgements of logits [n, K] for pairs whose `grades` are read (levels count from 1).

    Raises ArgumentError where labels, or saved cut-offs, do not fit the model.
    """
    sets = [pair.grades or () for pair in pairs]
    queries = [pair.query for pair in pairs]
    if labels.logits == 1:
        return judge_scores(logits[:, 0].astype(np.float64), sets, queries)
    probabilities = apply_temperature(logits, calibration.temperature if calibration else 1.0)
    if labels.grades is None:
        judged = judge_levels(probabilities, _levels_of(sets, labels), queries)
    else:
        judged = judge_grades(probabilities, sets, queries, model_grades=labels.grades)
    if calibration and calibration.cutoffs and judged.truth is not None:
        if len(judged.levels) != len(calibration.cutoffs) + 1:
            raise ArgumentError(
                f"the saved cut-offs part {len(calibration.cutoffs) + 1} grades, these pairs are "
                f"judged at {len(judged.levels)} levels; leave --calibrated out"
            )
        judged = judged.with_predicted(apply_cutoffs(judged.expected, calibration.cutoffs))
    return judged


def _levels_of(sets: list[tuple[int, ...]], labels: ModelLabels) -> list[int]:
    """The 0-based level each label names; one that may mean several cannot be judged so."""
    if coarse := next((s for s in sets if len(s) > 1), None):
        raise ArgumentError(
            f"--grades: a label means the grades {', '.join(map(str, coarse))}, but the model's "
            f"{labels.logits} logits are levels of unknown grade; say which grades each means "
            "with --model-grades"
        )
    return [s[0] - 1 for s in sets]


def default_scheme(labels: ModelLabels) -> LabelScheme:
    """How labels are read where nothing says so: as grades, or as the model's own levels."""
    if labels.grades is None and labels.logits > 1:
        return LevelMap.parse(str(labels.logits))
    return GradeMap.identity()
