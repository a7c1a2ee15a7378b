"""Temperature, grade cut-offs, and the meaning of a single logit, fitted on graded pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, count_cells, expectation, ratio
from qt_bert.stats.estimate import bootstrap_weights, interval_or_reason
from qt_bert.stats.judgements import FIVE_GRADES, GradeSet, checked_set, read_labels
from qt_bert.stats.metrics import weighted_kappa

TEMPERATURES = (0.05, 20.0)
MOST_CANDIDATES = 500
LEAST_GAIN = 1e-12
BEYOND = 10
"""How many times their range cut-offs are sought to either side of the scores seen."""
LEAST_SHARE = 1e-3
"""Of the probability of a level or higher, what the level itself has at least."""


@dataclass(frozen=True)
class Calibration:
    """`temperature` divides the logits; `cutoffs` [L − 1] split the expected grade into levels."""

    temperature: float
    cutoffs: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ArgumentError(f"temperature is {self.temperature}; it must be above 0")
        if not np.isfinite(self.cutoffs).all() or list(self.cutoffs) != sorted(self.cutoffs):
            raise ArgumentError(f"cut-offs must be rising numbers: {list(self.cutoffs)}")


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
    `logits` [n, K]. Raises ArgumentError for a label that no logit means.
    """
    labels = read_labels(grade_sets)
    model = [set(checked_set(tuple(grades), f"logit {i}")) for i, grades in enumerate(model_grades)]
    meant = np.array([[bool(grades & set(label)) for grades in model] for label in labels.sets])
    return _best_temperature(logits, meant[labels.index])


def fit_level_temperature(logits: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """`fit_temperature` for a model of K levels that are no grades.

    `logits` [n, K]; `truth` [n] holds the 0-based level of each pair.
    """
    return _best_temperature(logits, np.asarray(truth)[:, None] == np.arange(np.shape(logits)[1]))


def _best_temperature(logits: npt.ArrayLike, meant: BoolArray) -> float:
    """The temperature of least loss; `meant` [n, K] says which logits a pair's label allows."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    table = np.asarray(logits, dtype=np.float64)
    unreachable = np.flatnonzero(~meant.any(axis=1))
    if unreachable.size:
        raise ArgumentError(f"no logit has the label of pair {unreachable[0]}")
    outside = np.where(meant, 0.0, -np.inf)

    def loss(log_temperature: float) -> float:
        scaled = table / np.exp(log_temperature)
        inside = logsumexp(scaled + outside, axis=1)
        return float(np.mean(logsumexp(scaled, axis=1) - inside))

    optimum = minimize_scalar(loss, bounds=tuple(np.log(TEMPERATURES)), method="bounded")
    return float(np.exp(optimum.x))


def fit_cutoffs(
    expected: npt.ArrayLike, truth: npt.ArrayLike, *, n_levels: int = 5
) -> tuple[float, ...]:
    """Rising cut-offs [L − 1] on the expected grade that maximise QWK, one moved at a time.

    `truth` [n] holds 0-based levels. Starts at the halves (1.5, 2.5, …) and moves one cut-off at
    a time to its best place among the values seen until none gains: a local maximum, never worse
    than the start.
    """
    scores, levels = np.asarray(expected, dtype=np.float64), np.asarray(truth)
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


@dataclass(frozen=True)
class ScoreCalibration:
    """The calibration of one logit to K levels, the sets of `grades`, lowest first.

    `curves` [K − 1] give the probability of level 1, 2, … or higher: logistic ones by `(slope,)` and
    `(intercept,)`, isotonic ones by scores and shares, linear between. Each
    further level has at most 1 − LEAST_SHARE of the one below: where curves meet, none is impossible.
    `cutoffs` [K − 1] split the score into levels. A pair is relevant from the score `cut` on, that is, of the
    level `relevant` (from 0) or higher. Raises ArgumentError where these do not fit each other.
    """

    method: str
    grades: tuple[GradeSet, ...]
    curves: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    cutoffs: tuple[float, ...]
    relevant: int
    cut: float

    def __post_init__(self) -> None:
        for level, grades in enumerate(self.grades):
            checked_set(grades, f"level {level} of the calibration")
        above, most = len(self.grades) - 1, {"platt": 1.0, "isotonic": np.inf}.get(self.method, 0)
        fits = len(self.curves) == above >= self.relevant > 0 and len(self.cutoffs) in (0, above)
        rising = all(low <= high or np.isclose(low, high) for low, high in pairwise(self.cutoffs))
        curves = (0 < len(a) == len(b) <= most and list(a) == sorted(a) for a, b in self.curves)
        if not (fits and rising and all(curves)):
            raise ArgumentError(
                f"a {self.method} calibration whose parts do not fit: each level but the lowest has a curve and a "
                "cut-off, cut-offs rise, and `relevant` is one of these levels"
            )

    def probabilities(self, scores: npt.ArrayLike) -> FloatArray:
        """Probability of each level [n, K]."""
        from scipy.special import expit

        values = np.asarray(scores, dtype=np.float64)
        logistic, reached = self.method == "platt", [np.ones(len(values))]
        for a, b in self.curves:
            curve = expit(a[0] * values + b[0]) if logistic else np.interp(values, a, b)
            most = reached[-1] * (1 - LEAST_SHARE if len(reached) > 1 else 1)
            reached.append(np.minimum(curve, most))
        return np.asarray(-np.diff(reached, axis=0, append=0.0).T)

    def relevance(self, scores: npt.ArrayLike) -> FloatArray:
        """Probability that each pair is relevant [n]."""
        return np.asarray(self.probabilities(scores)[:, self.relevant :].sum(axis=1))


def fit_scores(
    scores: FloatArray,
    truth: IntArray,
    grades: tuple[GradeSet, ...],
    relevant: int,
    *,
    method: str = "platt",
    **aim: float | None,
) -> ScoreCalibration:
    """Calibration of the scores [n] of a one-logit model by the levels `truth` [n] (0-based) of n pairs.

    For each level but the lowest a curve of "this level or higher": Platt's (1999, with his targets) or
    isotonic, both by scikit-learn. `aim` as for `choose_cut`. Raises ArgumentError for levels on one
    side of `relevant`, scores that do not rise with them, and what no cut reaches.
    """
    counted = truth >= relevant
    if counted.all() or not counted.any():
        raise ArgumentError(
            f"{'every' if counted.all() else 'no'} pair to fit on is relevant (of grade 4, or a label "
            "above the middle); give the meaning of labels by --grades"
        )
    if scores[counted].mean() <= scores[~counted].mean():
        raise ArgumentError(
            "relevant pairs do not score higher than others, so scores cannot be calibrated; check the "
            "model, the labels and --template"
        )
    curves = tuple(_fit_curve(scores, truth >= level, method) for level in range(1, len(grades)))
    calibration = ScoreCalibration(method, grades, curves, (), relevant, 0.0)
    cut, *cutoffs = find_cuts(calibration, scores, truth, **aim)
    if np.isnan(cut):
        raise ArgumentError("no cut on the score reaches the precision or recall; ask for less")
    return replace(calibration, cutoffs=tuple(cutoffs), cut=cut)


def _fit_curve(
    scores: FloatArray, reached: BoolArray, method: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The curve of the share of pairs that `reached` a level, over their scores."""
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        # A level that no fitted pair has is not impossible.
        rising = IsotonicRegression(y_min=1e-3, y_max=1 - 1e-3).fit(scores, reached)
        return tuple(rising.X_thresholds_.tolist()), tuple(rising.y_thresholds_.tolist())
    if method != "platt":
        raise ArgumentError(f"--method {method!r}: choose from platt, isotonic")
    from sklearn.linear_model import LogisticRegression

    # Platt's targets: no pair is certain, so that the slope stays finite.
    n = int(reached.sum())
    target = np.where(reached, (n + 1) / (n + 2), 1 / (len(scores) - n + 2))
    centre, spread = scores.mean(), scores.std() or 1.0  # the solver fails on scores of 1e8
    fitted = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8).fit(
        np.tile((scores - centre) / spread, 2)[:, None],
        np.repeat([1, 0], len(scores)),
        sample_weight=np.concatenate([target, 1 - target]),
    )
    slope = float(fitted.coef_[0, 0] / spread)
    return (slope,), (float(fitted.intercept_[0] - slope * centre),)


def find_cuts(
    calibration: ScoreCalibration, scores: FloatArray, truth: IntArray, **aim: float | None
) -> list[float]:
    """The cut, then the K − 1 cut-offs that maximise QWK, for scores [n] of pairs of levels `truth` [n]."""
    values = np.arange(1.0, len(calibration.grades) + 1)

    def expected(at: FloatArray) -> FloatArray:
        return expectation(calibration.probabilities(at), values)

    cut = choose_cut(scores, truth >= calibration.relevant, **aim)
    cutoffs = fit_cutoffs(expected(scores), truth, n_levels=len(values))
    # The level expected rises with the score: a cut-off on one is a cut-off on the other, which may lie beyond
    # the scores seen.
    seen, away = np.sort(scores), (np.ptp(scores) or 1.0) * np.linspace(0.01, BEYOND, 100 * BEYOND)
    lower, levels, higher = seen[0] - away[::-1], expected(seen), seen[-1] + away
    ends = np.minimum(expected(lower), levels[0]), np.maximum(expected(higher), levels[-1])
    grid = np.concatenate([lower, seen, higher])
    on_score = np.interp(cutoffs, np.concatenate([ends[0], levels, ends[1]]), grid)
    return [cut, *on_score.tolist()]


def choose_cut(
    scores: FloatArray,
    relevant: BoolArray,
    *,
    precision: float | None = None,
    recall: float | None = None,
) -> float:
    """The score from which on pairs count as relevant; NaN if there is none.

    The lowest with this precision, or the highest with this recall, or else that of the best F1.
    """
    from sklearn.metrics import precision_recall_curve

    if not relevant.any():
        return float("nan")
    precisions, recalls, cuts = precision_recall_curve(relevant, scores)
    if precision is not None:
        places = np.flatnonzero(precisions[:-1] >= precision)[:1]
    elif recall is not None:
        places = np.flatnonzero(recalls[:-1] >= recall)[-1:]
    else:
        f1 = ratio(2 * precisions * recalls, precisions + recalls)[:-1]
        places = np.array([np.nanargmax(f1)])
    return float(cuts[places[0]]) if places.size else float("nan")


def query_intervals(
    statistic: Callable[[IntArray], Sequence[float]],
    query_index: IntArray,
    places: IntArray,
    resamples: int,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """`{value, ci_low, ci_high, reason}` of each number that `statistic` computes of the pairs at `places`.

    `statistic` takes places, each as often as its query was drawn. A NaN becomes None.
    """
    _, queries = np.unique(query_index[places], return_inverse=True)
    n_queries, values = int(queries.max()) + 1, statistic(places)
    drawn = [
        statistic(np.repeat(places, weights[queries].astype(np.int64)))
        for rows in bootstrap_weights(n_queries, resamples, seed, width=len(places))
        for weights in rows
    ]
    rows: list[dict[str, Any]] = []
    for value, column in zip(values, np.reshape(drawn, (-1, len(values))).T, strict=True):
        figures = (None if np.isnan(value) else value, *interval_or_reason(column, n_queries))
        rows.append(dict(zip(("value", "ci_low", "ci_high", "reason"), figures, strict=True)))
    return rows
