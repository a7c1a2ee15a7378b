"""Ridge regression in closed form from running sums: many targets, one covariance a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.stats.arrays import FloatArray

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""What is tried, in units of the vectors' mean variance."""


@dataclass(eq=False)
class Moments:
    """Sums over n examples of vectors x [width] in each of some layers, and of targets y [targets].

    All are sums of differences from a shift that is near the mean, so that float32 products lose
    nothing: `x` [layers, width], `xx` [layers, width, width], `xy` [layers, width, targets], `y` and
    `yy` [targets] (squares). Two of the same shift can be added.
    """

    shift: torch.Tensor
    n: int
    x: FloatArray
    xx: FloatArray
    xy: FloatArray
    y: FloatArray
    yy: FloatArray

    @classmethod
    def empty(cls, shift: torch.Tensor, targets: int) -> Moments:
        """Nothing summed yet; `shift` [layers, width] is taken off every vector."""
        layers, width = shift.shape
        return cls(
            shift,
            0,
            np.zeros((layers, width)),
            np.zeros((layers, width, width)),
            np.zeros((layers, width, targets)),
            np.zeros(targets),
            np.zeros(targets),
        )

    def add(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Sum further examples: vectors float32 [layers, n, width], targets float32 [n, targets]."""
        x = x - self.shift[:, None]
        turned = x.transpose(1, 2)
        self.n += len(y)
        self.x += x.sum(1, dtype=torch.float64).numpy()
        self.xx += torch.matmul(turned, x).double().numpy()
        self.xy += torch.matmul(turned, y).double().numpy()
        self.y += y.sum(0, dtype=torch.float64).numpy()
        self.yy += y.double().square().sum(0).numpy()

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.shift,
            self.n + other.n,
            self.x + other.x,
            self.xx + other.xx,
            self.xy + other.xy,
            self.y + other.y,
            self.yy + other.yy,
        )


@dataclass(frozen=True, eq=False)
class Ridge:
    """Weights [layers, width, targets] and intercepts [layers, targets], float32."""

    weights: torch.Tensor
    intercepts: torch.Tensor

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """Of vectors [layers, n, width]: [layers, n, targets]."""
        return torch.baddbmm(self.intercepts[:, None], x, self.weights)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A ridge, and the penalty chosen for each block of targets in each layer [layers]."""

    ridge: Ridge
    penalties: Mapping[str, FloatArray]


def fit(
    part: Moments,
    rest: Moments,
    blocks: Mapping[str, slice],
    penalties: Sequence[float] = PENALTIES,
) -> Fitted:
    """Ridge on the examples of both, its penalty the one that, fitted on `part`, errs least on `rest`.

    Each block of targets has a penalty of its own, in each layer: the least sum of squared errors.
    Where either part has no example, the middle penalty is taken.
    """
    whole = part + rest
    solver = Solver.of(whole)
    if part.n and rest.n:
        errors = _errors(Solver.of(part), rest, penalties)
    else:
        errors = np.ones((len(penalties), *whole.xy.shape[::2]))
        errors[len(penalties) // 2] = 0.0
    layers, width, targets = whole.xy.shape
    weights, chosen = np.empty((layers, width, targets)), {}
    for name, block in blocks.items():
        best = errors[:, :, block].sum(axis=2).argmin(axis=0)
        chosen[name] = np.asarray(penalties)[best]
        weights[:, :, block] = solver.weights(chosen[name], block)
    return Fitted(_ridge(whole, weights), chosen)


def refit(sums: Moments, penalty: FloatArray) -> Ridge:
    """Ridge on other examples, with a penalty for each layer [layers] that is known."""
    return _ridge(sums, Solver.of(sums).weights(penalty))


@dataclass(frozen=True, eq=False)
class Solver:
    """The centred covariance of each layer by its eigenvectors, for any penalty.

    `values` [layers, width], `axes` [layers, width, width] (columns), `along` the covariance of each
    axis with each target [layers, width, targets], `mean` and `target` the means.
    """

    values: FloatArray
    axes: FloatArray
    along: FloatArray
    mean: FloatArray
    target: FloatArray

    @classmethod
    def of(cls, sums: Moments) -> Solver:
        n = max(sums.n, 1)
        mean, target = sums.x / n, sums.y / n
        covariance = sums.xx / n - mean[:, :, None] * mean[:, None]
        values, axes = np.linalg.eigh(covariance)
        with_target = sums.xy / n - mean[:, :, None] * target
        along = axes.transpose(0, 2, 1) @ with_target
        return cls(np.maximum(values, 0.0), axes, along, mean, target)

    def weights(self, penalty: FloatArray, block: slice = slice(None)) -> FloatArray:
        """Of a penalty for each layer [layers]: [layers, width, targets of the block]."""
        return np.asarray(self.axes @ self.shrunk(penalty, block))

    def shrunk(self, penalty: FloatArray, block: slice = slice(None)) -> FloatArray:
        """The weights along the axes; an axis without variance has none."""
        scale = self.values + penalty[:, None] * self.values.mean(axis=1, keepdims=True)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        return np.asarray(self.along[:, :, block] * inverse[:, :, None])


def _ridge(sums: Moments, weights: FloatArray) -> Ridge:
    """With the intercepts that put means on means; the shift goes into them."""
    n = max(sums.n, 1)
    mean = sums.x / n + sums.shift.double().numpy()
    intercepts = sums.y / n - np.einsum("lw,lwt->lt", mean, weights)
    return Ridge(torch.from_numpy(weights).float(), torch.from_numpy(intercepts).float())


def _errors(solver: Solver, rest: Moments, penalties: Sequence[float]) -> FloatArray:
    """Squared errors on `rest` of fits elsewhere [penalties, layers, targets], from its sums alone."""
    axes, turned = solver.axes, solver.axes.transpose(0, 2, 1)
    xx, xy = turned @ rest.xx @ axes, turned @ rest.xy
    x, mean = (np.einsum("law,lw->la", turned, one) for one in (rest.x, solver.mean))
    found = []
    for penalty in penalties:
        w = solver.shrunk(np.full(len(axes), penalty))
        b = solver.target - np.einsum("la,lat->lt", mean, w)
        quadratic = np.einsum("lat,lab,lbt->lt", w, xx, w, optimize=True)
        cross = np.einsum("lat,lat->lt", w, xy) - b * np.einsum("la,lat->lt", x, w) + b * rest.y
        found.append(rest.yy - 2 * cross + quadratic + rest.n * b * b)
    return np.stack(found)
