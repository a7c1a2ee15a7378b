"""What logits say, and a checkpoint's outputs beside the labels of a file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qt_bert.data.pairs import GradeMap, LabelScheme, LevelMap, Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import sample_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.card import ModelLabels
from qt_bert.progress import progress
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.calibration import Calibration, apply_cutoffs, apply_temperature
from qt_bert.stats.judgements import Judgements, judge_grades, judge_levels, judge_scores

if TYPE_CHECKING:
    from qt_bert.models.checkpoint import Checkpoint
    from qt_bert.scoring.bulk import Scorer


# What the logits of a window of pairs say: probabilities, the predicted and the expected grade.


@dataclass(frozen=True)
class Outputs:
    """Outputs of n pairs. For one-logit models all but `score` is None, else `score` is None.

    `probabilities` [n, K]; `predicted` [n] names of outputs (the likeliest, ties to the lowest;
    with cut-offs, by the expected grade); `expected` [n] = Σ p × value of the output.
    """

    labels: ModelLabels
    probabilities: np.ndarray | None
    predicted: list[str] | None
    expected: np.ndarray | None
    score: np.ndarray | None

    @property
    def ranking_score(self) -> np.ndarray:
        """What titles are ranked by, float64 [n]: the expected grade or level, or the one score."""
        return np.asarray(self.expected if self.score is None else self.score, np.float64)

    def columns(self) -> dict[str, list[object]]:
        """Output columns in order: `p_1` … `p_5`, `predicted_grade`, `expected_grade` (for other
        models `p_<level>`, `predicted_level`, `expected_level`; for one logit `score`)."""
        if self.score is not None:
            return {"score": list(self.score.astype(np.float32))}
        assert self.probabilities is not None and self.expected is not None
        kind = "grade" if self.labels.exact else "level"
        out: dict[str, list[object]] = {
            f"p_{name}": list(column.astype(np.float32))
            for name, column in zip(self.labels.names, self.probabilities.T, strict=True)
        }
        out[f"predicted_{kind}"] = list(self.predicted or [])
        out[f"expected_{kind}"] = list(self.expected.astype(np.float32))
        return out


def read_outputs(
    logits: np.ndarray, labels: ModelLabels, calibration: Calibration | None = None
) -> Outputs:
    """Read logits [n, K] by what they mean; `calibration` acts only where it is given."""
    if labels.logits == 1:
        return Outputs(labels, None, None, None, logits[:, 0])
    probabilities = apply_temperature(logits, calibration.temperature if calibration else 1.0)
    expected = probabilities @ np.array(labels.values)
    if calibration and calibration.cutoffs:
        if len(calibration.cutoffs) != labels.logits - 1:
            raise ArgumentError(
                f"the saved cut-offs part {len(calibration.cutoffs) + 1} levels, the model has "
                f"{labels.logits}; run qt-bert calibrate again"
            )
        # Cut-offs lie on the scale 1 … K of the outputs, whatever the outputs are worth.
        index = apply_cutoffs(probabilities @ np.arange(1, labels.logits + 1), calibration.cutoffs)
    else:
        index = probabilities.argmax(1)
    return Outputs(labels, probabilities, [labels.names[i] for i in index], expected, None)


def ranking_scores(logits: np.ndarray, labels: ModelLabels) -> FloatArray:
    """What titles are ranked by, of logits [..., K]: expected grades or levels, or the one logit."""
    flat = read_outputs(logits.reshape(-1, logits.shape[-1]), labels).ranking_score
    return np.asarray(flat.reshape(logits.shape[:-1]))


# A checkpoint's outputs beside the labels of a file: the judgements every metric sees.


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

    Reading ends after `most` pairs, where it is given. Under `options.limit` about so many are drawn,
    in whole queries.
    """
    reader = options.open(
        path,
        default_map=default_scheme(labels),
        grade_required=True,
        rejects_path=rejects_path,
    )
    try:
        with closing(iter(reader)) as rows:
            pairs = list(islice(rows, most))
    except PairFileError as error:
        if options.grades is None and (reader.reasons.get("bad grade") or 0) > 0:
            raise PairFileError(
                f"{error}; if the file's labels are no grades 1-5, say what they mean with "
                "--grades, such as --grades '0=1-2,1=3-4,2=5'"
            ) from error
        raise
    if options.limit is not None:
        pairs = sample_queries(pairs, options.limit)
    return pairs, reader.rejected


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


def saved_calibration(checkpoint: Checkpoint) -> Calibration:
    """What `qt-bert calibrate` left beside the model. Raises ArgumentError where there is nothing."""
    if checkpoint.settings.calibration is None:
        raise ArgumentError(
            f"--calibrated: {checkpoint.name} has no calibration; make one with `qt-bert calibrate`"
        )
    return Calibration.from_json(checkpoint.settings.calibration)
