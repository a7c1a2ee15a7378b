"""Random subspaces that take as much variance from a layer as an eraser does.

A random direction of a trained model's vectors holds little variance, for a few principal directions
hold most of it. So a Gaussian frame is tilted: in the basis of the principal directions its rows are
multiplied by λ to the power t. The variance that the tilted subspace holds grows with t (from the
least to the most that a subspace of this rank can hold), so that bisection finds the t that it takes.
Every draw ends, and says so where no tilt is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.weights import AffineMap
from qt_bert.stats.arrays import FloatArray

WITHIN = 0.1
"""A subspace counts as matched where it takes the wanted variance up to this share of it."""
CLOSE = 0.02
"""Bisection stops here."""
STEPS = 60
STEEPEST = 8.0
"""The largest tilt either way."""
FRAMES = 5
"""So many frames are drawn before a subspace is given up."""
FLAT = 1e-12
"""Directions that hold less than this share of the largest variance are no part of the space."""


@dataclass(frozen=True, eq=False)
class Space:
    """The principal directions of some vectors: `variances` [m], `axes` [size, m], `mean` [size]."""

    variances: FloatArray
    axes: FloatArray
    mean: FloatArray

    @classmethod
    def of(cls, covariance: FloatArray, mean: FloatArray) -> Space:
        """Those that hold any variance."""
        variances, axes = np.linalg.eigh(covariance)
        held = variances > FLAT * max(float(variances[-1]), 0.0)
        return cls(variances[held], axes[:, held], mean)

    def without(self, rank: int, trace: float, rng: np.random.Generator) -> AffineMap | None:
        """The orthogonal projection that takes away a random subspace of `rank` holding `trace`.

        None where no frame could be tilted to within 10 % of it: the rank is that of the space, or the
        trace beyond what a subspace of this rank can hold.
        """
        if not 0 < rank < len(self.variances) or not trace > 0:
            return None
        for _ in range(FRAMES):
            basis = self._tilted(rng.standard_normal((len(self.variances), rank)), trace)
            if abs(self.held(basis) / trace - 1) <= WITHIN:
                across = torch.from_numpy(self.axes @ basis)
                return AffineMap(across, across.T.contiguous(), torch.from_numpy(self.mean))
        return None

    def held(self, basis: FloatArray) -> float:
        """The variance in a subspace with orthonormal columns [m, rank]."""
        return float(self.variances @ np.square(basis).sum(axis=1))

    def _tilted(self, frame: FloatArray, trace: float) -> FloatArray:
        """An orthonormal basis of the frame, tilted so that it holds `trace` as nearly as it can."""
        logs = np.log(self.variances)
        low, high = -STEEPEST, STEEPEST
        for _ in range(STEPS):
            tilt = (low + high) / 2
            powers = tilt * logs
            basis = np.linalg.qr(np.exp(powers - powers.max())[:, None] * frame)[0]
            held = self.held(basis)
            if abs(held / trace - 1) <= CLOSE:
                break
            low, high = (tilt, high) if held < trace else (low, tilt)
        return np.asarray(basis)
