"""LEACE from sums: the least change of vectors after which no linear probe finds a property.

Belrose et al. 2023, "LEACE: Perfect linear concept erasure in closed form", by their package
`concept-erasure`, in float64.
"""

from __future__ import annotations

import numpy as np
import torch
from concept_erasure import LeaceFitter

from qt_bert.ablation.weights import AffineMap
from qt_bert.probes.layers_reading import Moments
from qt_bert.stats.arrays import FloatArray

LEAST_SINGULAR = 1e-6
"""Directions of the whitened vectors that covary less with the labels than this are left alone."""


def leace(sums: Moments, layer: int, block: slice) -> AffineMap:
    """The map that erases the targets of `block` from the vectors of one of the sums' layers.

    The covariance is shrunk as the package does it, which takes nothing from the erasure and keeps
    directions of hardly any variance from being blown up. Rank 0 where nothing covaries.
    """
    mean_x, mean_y = sums.x[layer] / sums.n, sums.y[block] / sums.n
    size, targets = sums.xy[layer][:, block].shape
    fitter = LeaceFitter(
        size,
        targets,
        dtype=torch.float64,
        svd_tol=LEAST_SINGULAR,
        # With one covariance for both sides the trace cannot grow; the check divides by zero where
        # there is nothing to erase.
        constrain_cov_trace=False,
    )
    fitter.n = torch.tensor(sums.n)
    fitter.mean_x = torch.from_numpy(mean_x + sums.shift[layer].double().numpy())
    fitter.mean_z = torch.from_numpy(mean_y)
    fitter.sigma_xx_ = torch.from_numpy(covariance(sums, layer) * sums.n)
    fitter.sigma_xz_ = torch.from_numpy(
        sums.xy[layer][:, block] - sums.n * np.outer(mean_x, mean_y)
    )
    eraser = fitter.eraser
    told = eraser.proj_left.abs().amax(0) > 0
    return AffineMap(eraser.proj_left[:, told], eraser.proj_right[told], fitter.mean_x)


def covariance(sums: Moments, layer: int) -> FloatArray:
    """Of the vectors of one layer [width, width]."""
    mean = sums.x[layer] / sums.n
    found = sums.xx[layer] / sums.n - np.outer(mean, mean)
    return np.asarray((found + found.T) / 2)


def removed_trace(one: AffineMap, spread: FloatArray) -> float:
    """How much variance a map takes from vectors of covariance `spread` [size, size]: the mean of
    |x − map(x)|²."""
    left, right = one.left.numpy(), one.right.numpy()
    return float(np.einsum("ij,ij->", left.T @ left, right @ spread @ right.T))


def erased(sums: Moments, layer: int, one: AffineMap) -> Moments:
    """The sums of one layer as they are behind a map; the targets are what they were."""
    size = one.size
    gone = (one.left @ one.right).numpy()
    kept = np.eye(size) - gone
    moved = gone @ (one.centre - sums.shift[layer].double()).numpy()
    x, n = kept @ sums.x[layer], sums.n
    cross = np.outer(x, moved)
    xx = kept @ sums.xx[layer] @ kept.T + cross + cross.T + n * np.outer(moved, moved)
    xy = kept @ sums.xy[layer] + np.outer(moved, sums.y)
    shift = sums.shift[layer : layer + 1]
    return Moments(shift, n, (x + n * moved)[None], xx[None], xy[None], sums.y, sums.yy)
