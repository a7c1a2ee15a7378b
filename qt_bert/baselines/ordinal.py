"""Ordinal logistic regression (cumulative logits, proportional odds) on sets of grades.

P. McCullagh, "Regression models for ordinal data", JRSS B 42 (1980), section 2:
P(grade ≤ k | x) = σ(θ_k − x·β) with rising thresholds θ_1 < … < θ_{K−1}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation import METRICS, judge_grades
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import GRADES, GradeSet

L2_GRID = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
ARRAYS = ("mean", "scale", "coefficients", "thresholds")
LEAST_GAP = 1e-3
STEEPEST_END = 1e-3
MOST_STEPS = 5_000


@dataclass(frozen=True, eq=False)
class Labelled:
    """n pairs to fit or judge: features [n, F], the grades each label may mean, weights [n]."""

    features: FloatArray
    grade_sets: Sequence[GradeSet]
    weights: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class OrdinalRegression:
    """A fitted model; `mean` and `scale` [F] standardise features before `coefficients` [F].

    `thresholds` [K − 1] rise; `l2` is the penalty it was fitted with.
    """

    mean: FloatArray
    scale: FloatArray
    coefficients: FloatArray
    thresholds: FloatArray
    l2: float

    @classmethod
    def fit(cls, data: Labelled, *, l2: float, n_grades: int = len(GRADES)) -> OrdinalRegression:
        """Minimise the weighted mean of −log Σ p(g) over each label's set, plus l2/2 · |β|².

        The penalty is on coefficients of standardised features; thresholds are free. L-BFGS with
        the analytic gradient; convex where every set is a range of grades.
        Raises ArgumentError for shapes that do not match, features that are no numbers, labels
        that cannot tell two neighbouring grades apart, and a fit that does not converge.
        """
        from scipy.optimize import minimize

        features = _checked_features(data.features)
        allowed = _allowed(data.grade_sets, len(features), n_grades)
        weights = _checked_weights(data.weights, len(features))
        mean, scale = features.mean(0), features.std(0)
        scale[np.ptp(features, axis=0) == 0] = 1.0
        loss = LabelSetLoss((features - mean) / scale, allowed, weights, l2)
        found = minimize(
            loss, loss.start(), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
        )
        if not (np.isfinite(found.fun) and np.abs(found.jac).max() < STEEPEST_END):
            raise ArgumentError(
                f"the ordinal regression did not converge ({found.message}); a larger l2 than "
                f"{l2:g} may help"
            )
        coefficients, thresholds = loss.unpack(found.x)
        return cls(mean, scale, coefficients, thresholds, l2)

    def predict_proba(self, features: FloatArray) -> FloatArray:
        """Probability of each grade [n, K] for features [n, F], not standardised.

        Raises ArgumentError for another number of features, or values that are no numbers.
        """
        table = _checked_features(features)
        if table.shape[1] != len(self.mean):
            raise ArgumentError(f"{table.shape[1]} features; the model has {len(self.mean)}")
        score = (table - self.mean) / self.scale @ self.coefficients
        return np.exp(_log_probabilities(score, self.thresholds))

    def to_json(self) -> dict[str, Any]:
        """The parameters as plain lists."""
        return {name: getattr(self, name).tolist() for name in ARRAYS} | {"l2": self.l2}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OrdinalRegression:
        """The model that `to_json` wrote; ArgumentError where its parts do not fit together."""
        try:
            arrays = {name: np.array(value[name], dtype=np.float64) for name in ARRAYS}
            l2 = float(value["l2"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArgumentError(f"not an ordinal regression: {error!r}") from error
        shapes = {arrays[name].shape for name in ARRAYS[:3]}
        cuts = arrays["thresholds"]
        rising = cuts.ndim == 1 and cuts.size and (np.diff(cuts) > 0).all()
        if len(shapes) > 1 or arrays["mean"].ndim != 1 or not rising:
            raise ArgumentError("not an ordinal regression: unequal lengths or falling thresholds")
        return cls(**arrays, l2=l2)


@dataclass(frozen=True, eq=False)
class LabelSetLoss:
    """The penalised loss and its gradient, as a function of one parameter vector.

    The vector [F + K − 1] holds the coefficients, the first threshold, and the logarithms of the
    gaps between thresholds, so that every vector has rising thresholds. `features` [n, F],
    `allowed` [n, K] (whether the label may mean the grade), `weights` [n] that sum to 1.
    """

    features: FloatArray
    allowed: np.ndarray
    weights: FloatArray
    l2: float

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        coefficients, thresholds = self.unpack(parameters)
        score = self.features @ coefficients
        by_grade = np.where(self.allowed, _log_probabilities(score, thresholds), -np.inf)
        by_label = np.logaddexp.reduce(by_grade, axis=1)
        share = self.weights[:, None] * np.exp(by_grade - by_label[:, None])
        by_score, by_threshold = _slopes(share, score, thresholds)
        gaps = np.diff(thresholds)
        from_right = by_threshold[::-1].cumsum()[::-1]
        gradient = [
            self.features.T @ by_score + self.l2 * coefficients,
            from_right[:1],
            from_right[1:] * gaps,
        ]
        penalty = self.l2 / 2 * float(coefficients @ coefficients)
        return penalty - float(self.weights @ by_label), np.concatenate(gradient)

    def start(self) -> FloatArray:
        """No coefficients, and the thresholds that give the grades their shares in the labels."""
        shares = self.weights @ (self.allowed / self.allowed.sum(axis=1, keepdims=True))
        below = shares.cumsum()[:-1]
        thresholds = np.log(below / (1 - below))
        gaps = np.log(np.maximum(np.diff(thresholds), LEAST_GAP))
        return np.concatenate([np.zeros(self.features.shape[1]), thresholds[:1], gaps])

    def unpack(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients [F] and thresholds [K − 1] of a parameter vector."""
        n = self.features.shape[1]
        steps = np.concatenate([parameters[n : n + 1], np.exp(parameters[n + 1 :])])
        return parameters[:n], steps.cumsum()


def fit_best(
    train: Labelled, dev: Labelled, grid: Sequence[float] = L2_GRID
) -> tuple[OrdinalRegression, dict[float, float]]:
    """Fit with each l2 of `grid`; the model with the best QWK on `dev`, and that QWK by l2.

    Of equals the first is taken. Raises ArgumentError as `fit` does, and where the dev labels
    leave QWK undefined.
    """
    models = {l2: OrdinalRegression.fit(train, l2=l2) for l2 in grid}
    reached = {l2: _qwk(model, dev) for l2, model in models.items()}
    best = max(reached, key=lambda l2: reached[l2])
    return models[best], reached


def _qwk(model: OrdinalRegression, dev: Labelled) -> float:
    probabilities = model.predict_proba(dev.features)
    judged = judge_grades(probabilities, dev.grade_sets, [""] * len(dev.grade_sets))
    value = METRICS["qwk"].value(judged)
    if value is None:
        raise ArgumentError(
            "QWK is undefined on the dev pairs; give a dev file whose labels are distinct grades"
        )
    return value


def _bounds(score: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper logit bound of every grade [n, K], infinite at the ends of the scale."""
    edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
    return edges[:-1] - score[:, None], edges[1:] - score[:, None]


def _log_probabilities(score: FloatArray, thresholds: FloatArray) -> FloatArray:
    """log p of every grade [n, K], from σ(b) − σ(a) = σ(b) σ(−a) (1 − e^(a−b)): no cancellation."""
    from scipy.special import log_expit

    lower, upper = _bounds(score, thresholds)
    inside = np.concatenate([[0.0], np.log(-np.expm1(-np.diff(thresholds))), [0.0]])
    return np.asarray(log_expit(upper) + log_expit(-lower) + inside)


def _slopes(
    share: FloatArray, score: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of the loss by each score [n] and each threshold [K − 1].

    `share` [n, K] is the weight of a pair times the part of its label's probability that lies
    in each grade.
    """
    from scipy.special import expit

    lower, upper = _bounds(score, thresholds)
    gaps = np.diff(thresholds)
    inside = np.concatenate([[0.0], np.exp(-gaps) / -np.expm1(-gaps), [0.0]])
    by_score = (share * (1 - expit(lower) - expit(upper))).sum(axis=1)
    as_lower = (share * (expit(lower) + inside)).sum(axis=0)
    as_upper = (share * (expit(-upper) + inside)).sum(axis=0)
    return by_score, as_lower[1:] - as_upper[:-1]


def _checked_features(features: FloatArray) -> FloatArray:
    table = np.asarray(features, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise ArgumentError(f"features have shape {table.shape}, not (pairs, features)")
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        raise ArgumentError(f"a feature of pair {int(np.argmin(finite))} is not a number")
    return table


def _checked_weights(weights: FloatArray | None, n: int) -> FloatArray:
    """Weights that sum to 1; equal ones where none are given."""
    given = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (n,) or not ((given > 0) & (given < np.inf)).all():
        raise ArgumentError(f"weights must be {n} numbers above 0, one for each pair")
    return given / given.sum()


def _allowed(grade_sets: Sequence[GradeSet], n: int, n_grades: int) -> np.ndarray:
    """Whether each label may mean each grade [n, K]."""
    if len(grade_sets) != n:
        raise ArgumentError(f"{len(grade_sets)} labels for {n} pairs")
    unfit = next((s for s in grade_sets if not s or not 1 <= min(s) <= max(s) <= n_grades), None)
    if unfit is not None:
        raise ArgumentError(f"the label {unfit!r} is no set of grades 1-{n_grades}")
    allowed = np.zeros((n, n_grades), dtype=bool)
    for row, grades in zip(allowed, grade_sets, strict=True):
        row[[grade - 1 for grade in grades]] = True
    seen = allowed.any(axis=0)
    if not seen.all():
        raise ArgumentError(f"no training label may mean grade {int(np.argmin(seen)) + 1}")
    told_apart = (allowed[:, 1:] != allowed[:, :-1]).any(axis=0)
    if not told_apart.all():
        lower = int(np.argmin(told_apart)) + 1
        raise ArgumentError(f"no training label tells grade {lower} from grade {lower + 1}")
    return allowed
