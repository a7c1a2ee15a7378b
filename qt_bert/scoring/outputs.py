"""What the logits of a window of pairs say: probabilities, the predicted and the expected grade."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.encoder import ModelLabels
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.calibration import Calibration, apply_cutoffs, apply_temperature


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
