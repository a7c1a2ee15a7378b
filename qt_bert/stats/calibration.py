"""A temperature and grade cut-offs, fitted on a dev file: used only where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, count_cells
from qt_bert.stats.judgements import FIVE_GRADES, checked_set, read_labels
from qt_bert.stats.metrics import weighted_kappa

TEMPERATURES = (0.05, 20.0)
MOST_CANDIDATES = 500
LEAST_GAIN = 1e-12


@dataclass(frozen=True)
class Calibration:
    """`temperature` divides the logits; `cutoffs` [L − 1] part the expected grade into levels."""

    temperature: float
    cutoffs: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ArgumentError(f"temperature is {self.temperature}; it must be above 0")
        if not np.isfinite(self.cutoffs).all() or list(self.cutoffs) != sorted(self.cutoffs):
            raise ArgumentError(f"cut-offs must be rising numbers: {list(self.cutoffs)}")

    def to_json(self) -> dict[str, Any]:
        """`{temperature, cutoffs}`."""
        return asdict(self) | {"cutoffs": list(self.cutoffs)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Calibration:
        """Read what `to_json` gave. Raises CheckpointError where it is something else."""
        try:
            return cls(float(stored["temperature"]), tuple(map(float, stored["cutoffs"])))
        except (KeyError, TypeError, ValueError, ArgumentError) as error:
            raise CheckpointError(
                f"the stored calibration cannot be used ({error}); run qt-bert calibrate again"
            ) from error


def apply_temperature(logits: npt.ArrayLike, temperature: float = 1.0) -> FloatArray:
    """Softmax of logits / temperature: float64 [n, K], in float64 throughout."""
    scaled = np.asarray(logits, dtype=np.float64) / temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def apply_cutoffs(expected: npt.ArrayLike, cutoffs: Sequence[float]) -> IntArray:
    """Level of each expected grade, 0-based [n]: how many cut-offs lie below it."""
    return np.searchsorted(np.asarray(cutoffs), np.asarray(expected), side="left")


def fit_temperature(
    logits: npt.ArrayLike,
    grade_sets: Sequence[Sequence[int]],
    *,
    model_grades: Sequence[Sequence[int]] = FIVE_GRADES,
) -> float:
    """The temperature in 0.05..20 that minimises the mean −log Σ p over each label's set.

    C. Guo et al., "On calibration of modern neural networks", ICML 2017; here with label sets.
    `logits` [n, K]. Raises ArgumentError where shapes, labels or numbers do not fit.
    """
    labels = read_labels(grade_sets)
    model = [set(checked_set(tuple(one), f"logit {i}")) for i, one in enumerate(model_grades)]
    meant = np.array([[bool(one & set(label)) for one in model] for label in labels.sets])
    return _best_temperature(logits, meant[labels.index])


def fit_level_temperature(logits: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """`fit_temperature` for a model of K levels that are no grades.

    `logits` [n, K]; `truth` [n] holds the 0-based level of each pair. Raises ArgumentError where
    shapes, levels or numbers do not fit.
    """
    n_levels = np.shape(logits)[-1] if np.ndim(logits) else 0
    return _best_temperature(logits, np.asarray(truth)[:, None] == np.arange(n_levels))


def _best_temperature(logits: npt.ArrayLike, meant: BoolArray) -> float:
    """The temperature of least loss; `meant` [n, K] says which logits a pair's label allows."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    table = np.asarray(logits, dtype=np.float64)
    if table.shape != meant.shape or not np.isfinite(table).all():
        raise ArgumentError(
            f"logits of shape {table.shape} for {meant.shape[0]} labels and {meant.shape[1]} "
            "logits, or some are not numbers"
        )
    if not meant.size:
        raise ArgumentError("no graded pair: a temperature needs at least one")
    unreachable = np.flatnonzero(~meant.any(axis=1))
    if unreachable.size:
        raise ArgumentError(f"no logit stands for the label of pair {unreachable[0]}")
    outside = np.where(meant, 0.0, -np.inf)

    def loss(log_temperature: float) -> float:
        scaled = table / np.exp(log_temperature)
        inside = logsumexp(scaled + outside, axis=1)
        return float(np.mean(logsumexp(scaled, axis=1) - inside))

    found = minimize_scalar(loss, bounds=tuple(np.log(TEMPERATURES)), method="bounded")
    return float(np.exp(found.x))


def fit_cutoffs(
    expected: npt.ArrayLike, truth: npt.ArrayLike, *, n_levels: int = 5
) -> tuple[float, ...]:
    """Rising cut-offs [L − 1] on the expected grade that maximise QWK, one moved at a time.

    `truth` [n] holds 0-based levels. Starts at the halves (1.5, 2.5, …) and moves one cut-off at
    a time to its best place among the values seen until none gains: a local maximum, never worse
    than the start. Raises ArgumentError where lengths, levels or numbers do not fit.
    """
    scores, levels = np.asarray(expected, dtype=np.float64), np.asarray(truth)
    if scores.ndim != 1 or scores.shape != levels.shape or scores.size == 0:
        raise ArgumentError(f"{scores.size} expected grades for {levels.size} levels")
    if not np.isfinite(scores).all() or not np.isin(levels, np.arange(n_levels)).all():
        raise ArgumentError(f"expected grades must be numbers and levels lie in 0..{n_levels - 1}")
    values = np.unique(scores)
    middles = (values[1:] + values[:-1]) / 2
    places = np.linspace(0, len(middles) - 1, min(len(middles), MOST_CANDIDATES))
    halves = np.arange(1.5, n_levels)
    candidates = np.union1d(middles[places.astype(np.int64)], halves)
    # Pairs of each true level at or below each candidate, and all of them last [C + 1, L].
    place = np.searchsorted(candidates, scores, side="left")
    counts = count_cells(place, levels.astype(np.int64), len(candidates) + 1, n_levels)
    below = counts.cumsum(axis=0)
    chosen = _search(np.searchsorted(candidates, halves), below)
    return tuple(candidates[chosen].tolist())


def _search(chosen: IntArray, below: FloatArray) -> IntArray:
    """Move one cut-off at a time to its best place between its neighbours, while QWK gains."""
    best, improved = _kappas(chosen[None], below)[0], True
    while improved:
        improved = False
        for cut in range(len(chosen)):
            low = chosen[cut - 1] if cut else 0
            high = chosen[cut + 1] if cut + 1 < len(chosen) else len(below) - 2
            tries = np.repeat(chosen[None], high - low + 1, axis=0)
            tries[:, cut] = np.arange(low, high + 1)
            kappas = _kappas(tries, below)
            if kappas.max() > best + LEAST_GAIN:
                best, chosen, improved = kappas.max(), tries[kappas.argmax()], True
    return chosen


def _kappas(cuts: IntArray, below: FloatArray) -> FloatArray:
    """QWK of each row of cut-off places [T, L − 1]; 0 where it is undefined [T]."""
    n_levels = below.shape[1]
    edges = np.concatenate(
        [np.zeros((len(cuts), 1, n_levels)), below[cuts], np.tile(below[-1], (len(cuts), 1, 1))],
        axis=1,
    )
    return np.nan_to_num(weighted_kappa(np.diff(edges, axis=1).transpose(0, 2, 1)))
