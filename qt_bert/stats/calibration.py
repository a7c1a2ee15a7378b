"""Temperature and grade cut-offs, and what one logit means: fitted on a dev file, used where asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, count_cells
from qt_bert.stats.intervals import bootstrap_weights, percentile_interval
from qt_bert.stats.judgements import (
    FIVE_GRADES,
    GRADES,
    GradeSet,
    Labels,
    checked_set,
    middle_cut,
    name_set,
    read_labels,
    set_means,
)
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


# One logit: the grades that a score means, and the score from which on a pair counts as relevant.


Method = Literal["platt", "isotonic"]
Aim = Literal["f1", "precision", "recall"]
LEAST_SHARE = 1e-3
"""Of each level, whatever the score: what no pair fitted on was is not impossible."""


@dataclass(frozen=True)
class Curve:
    """The probability that a pair is of a level or a higher one, over the score.

    Platt's: logistic, of `slope` and `intercept`. Isotonic: `shares` at `scores`, straight lines between.
    """

    slope: float = 0.0
    intercept: float = 0.0
    scores: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.shares) or list(self.scores) != sorted(self.scores):
            raise ArgumentError("the scores of a curve must rise, with a share each")

    def __call__(self, scores: FloatArray) -> FloatArray:
        from scipy.special import expit

        if self.scores:
            return np.interp(scores, self.scores, self.shares)
        return np.asarray(expit(self.slope * scores + self.intercept))


@dataclass(frozen=True)
class ScoreCalibration:
    """What one logit means: K levels, the sets of `grades` lowest first, and which are relevant.

    `curves` [K − 1] say how likely a pair is of level 1, 2, … or higher; where two cross, the lower one
    holds for both. `cutoffs` [K − 1] part the score into levels; from the score `cut` on a pair counts
    as relevant, that is, of the level `relevant` (from 0) or higher.
    """

    kind: ClassVar[str] = "score"
    method: Method
    grades: tuple[GradeSet, ...]
    curves: tuple[Curve, ...]
    cutoffs: tuple[float, ...]
    relevant: int
    cut: float

    def __post_init__(self) -> None:
        steps = len(self.grades) - 1
        if not len(self.curves) == len(self.cutoffs) == steps or not 1 <= self.relevant <= steps:
            raise ArgumentError(f"{steps + 1} levels need {steps} curves and cut-offs")
        if list(self.cutoffs) != sorted(self.cutoffs):
            raise ArgumentError(f"cut-offs must be rising numbers: {list(self.cutoffs)}")

    def probabilities(self, scores: npt.ArrayLike) -> FloatArray:
        """Probability of each level [n, K], a thousandth at least."""
        given = np.asarray(scores, dtype=np.float64)
        reached = np.minimum.accumulate([curve(given) for curve in self.curves], axis=0)
        ends = np.ones((1, len(given)))
        shares = -np.diff(np.concatenate([ends, reached, 0 * ends]), axis=0).T
        return np.asarray(LEAST_SHARE + (1 - LEAST_SHARE * len(self.grades)) * shares)

    def relevance(self, scores: npt.ArrayLike) -> FloatArray:
        """Probability that each pair is relevant [n]."""
        return np.asarray(self.probabilities(scores)[:, self.relevant :].sum(axis=1))

    @property
    def sides(self) -> tuple[GradeSet, GradeSet]:
        """The grades that are not relevant, and those that are; with them grades that no label meant."""
        high = set(sum(self.grades[self.relevant :], ()))
        high |= set(range(min(high), GRADES[-1] + 1)).difference(*self.grades)
        return tuple(sorted(set(GRADES) - high)), tuple(sorted(high))


def fit_scores(
    scores: npt.ArrayLike,
    grade_sets: Sequence[Sequence[int]],
    *,
    method: Method = "platt",
    relevant: int | None = None,
    aim: Aim = "f1",
    least: float | None = None,
) -> ScoreCalibration:
    """What the scores [n] of a one-logit model mean, by the labels of n pairs.

    For each level but the lowest a curve of "this level or higher": Platt's (1999, with his targets) or
    isotonic, both by scikit-learn. Cut-offs maximise QWK of the level expected. `relevant` is the lowest
    grade that counts (default 4, or the first level above the middle); the cut is that of the best F1, or
    the lowest with the precision `least`, or the highest with that recall. Raises ArgumentError for labels
    that overlap or lie all on one side, scores that do not rise with them, and what no cut reaches.
    """
    given, labels = np.asarray(scores, dtype=np.float64), read_labels(grade_sets)
    if given.shape != labels.index.shape or not np.isfinite(given).all():
        raise ArgumentError(
            f"{given.size} scores for {labels.index.size} labels, or some no numbers"
        )
    first = _first_relevant(labels, relevant)
    counted = labels.index >= first
    if counted.all() or not counted.any():
        raise ArgumentError(
            f"{'every' if counted.all() else 'no'} pair to fit on is relevant; say from which grade on "
            f"with --relevant (labels: {', '.join(map(name_set, labels.sets))})"
        )
    if given[counted].mean() <= given[~counted].mean():
        raise ArgumentError(
            "relevant pairs do not score higher than others, so that a score means no grade; check the "
            "model, the labels and --template"
        )
    n_levels = len(labels.sets)
    curves = tuple(_fit_curve(given, labels.index >= one, method) for one in range(1, n_levels))
    found = ScoreCalibration(method, labels.sets, curves, (0.0,) * (n_levels - 1), first, 0.0)
    cut = choose_cut(given, counted, aim, least)
    if np.isnan(cut):
        raise ArgumentError(f"--{aim} {least:g}: no cut on the score reaches it; ask for less")
    cutoffs = cutoffs_on_scores(found, given, labels.index)
    return replace(found, cutoffs=cutoffs, cut=cut)


def _first_relevant(labels: Labels, relevant: int | None) -> int:
    """The lowest level that counts as relevant."""
    if labels.kind == "overlapping":
        raise ArgumentError(
            "the labels overlap, so that they are no levels; calibrate on labels that do not"
        )
    if relevant is None and labels.kind == "coarse":
        return int(middle_cut(len(labels.sets))) - 1
    grade = 4 if relevant is None else relevant
    for one in labels.sets:
        if min(one) < grade <= max(one):
            raise ArgumentError(f"--relevant {grade}: lies within the label {name_set(one)}")
    return int(np.searchsorted(set_means(labels.sets), grade))


def _fit_curve(scores: FloatArray, reached: BoolArray, method: Method) -> Curve:
    """Of the pairs that reached a level, by their score; both must be among them."""
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        found = IsotonicRegression(y_min=0, y_max=1).fit(scores, reached)
        ends = (found.X_thresholds_, found.y_thresholds_)
        return Curve(0.0, 0.0, *(tuple(map(float, one)) for one in ends))
    from sklearn.linear_model import LogisticRegression

    # Platt's targets stand for a share of a pair each: no pair is certain, and a slope stays finite.
    n_reached = int(reached.sum())
    above = (n_reached + 1) / (n_reached + 2)
    target = np.where(reached, above, 1 / (len(scores) - n_reached + 2))
    centre, scale = scores.mean(), scores.std() or 1.0
    standard = np.tile((scores - centre) / scale, 2)[:, None]
    classes = np.repeat([1, 0], len(scores))
    fitted = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(
        standard, classes, sample_weight=np.concatenate([target, 1 - target])
    )
    slope = float(fitted.coef_[0, 0]) / scale
    return Curve(slope, float(fitted.intercept_[0]) - slope * centre)


def choose_cut(
    scores: FloatArray, relevant: BoolArray, aim: Aim, least: float | None = None
) -> float:
    """The score from which on pairs count as relevant, halfway to the next lower one; NaN if there is none.

    The cut of the best F1; the lowest whose precision, or the highest whose recall, is at least `least`.
    """
    from sklearn.metrics import precision_recall_curve

    if not relevant.any():
        return float("nan")
    precision, recall, cuts = precision_recall_curve(relevant, scores)
    precision, recall = precision[:-1], recall[:-1]
    if aim == "f1":
        both = precision + recall
        place = int(np.argmax(np.divide(precision * recall, both, out=0 * both, where=both > 0)))
    else:
        reaching = np.flatnonzero((precision if aim == "precision" else recall) >= (least or 0))
        if not reaching.size:
            return float("nan")
        place = int(reaching[0 if aim == "precision" else -1])
    lower = scores[scores < cuts[place]]
    return float((cuts[place] + lower.max()) / 2 if lower.size else cuts[place])


def cutoffs_on_scores(
    found: ScoreCalibration, scores: FloatArray, truth: IntArray
) -> tuple[float, ...]:
    """Cut-offs of the level expected, as the scores halfway between the pairs that they part."""
    levels = len(found.grades)
    expected = found.probabilities(scores) @ np.arange(1.0, levels + 1)
    cutoffs = []
    for cut in fit_cutoffs(expected, truth, n_levels=levels):
        below, above = scores[expected <= cut], scores[expected > cut]
        low, high = below.max(initial=-np.inf), above.min(initial=np.inf)
        one = low if not above.size else np.nextafter(high, low) if not below.size else None
        cutoffs.append(float((low + high) / 2 if one is None else one))
    return tuple(np.maximum.accumulate(cutoffs).tolist())


def query_intervals(
    values: Sequence[float],
    statistic: Callable[[IntArray], npt.ArrayLike],
    query_index: IntArray,
    resamples: int,
    seed: int = 0,
) -> list[dict[str, float | None]]:
    """`{value, ci_low, ci_high}` of numbers that `statistic` makes of pairs, with 95 % intervals over queries.

    It takes places of pairs, a pair as often as its query was drawn. No interval (None) where more than
    5 % of the resamples have no such number.
    """
    pairs, n_queries = np.arange(len(query_index)), int(query_index.max()) + 1
    drawn = [
        np.atleast_1d(statistic(np.repeat(pairs, weights[query_index].astype(np.int64))))
        for rows in bootstrap_weights(n_queries, resamples, seed, width=len(pairs))
        for weights in rows
    ]
    columns = np.array(drawn).reshape(len(drawn), len(values)).T
    found = []
    for value, column in zip(values, columns, strict=True):
        low, high = percentile_interval(column) or (None, None)
        found.append({"value": value, "ci_low": low, "ci_high": high})
    return found
