"""Centres of gravity and scores of one model, with their resamples."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from qt_bert.probes.layers.decode import Decoded
from qt_bert.probes.layers.gravity import centre, entropy, gains
from qt_bert.probes.layers.mix import Mixed
from qt_bert.probes.layers.scores import Sums
from qt_bert.probes.naming import Estimate, means
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import bootstrap_weights, percentile_interval

SPLITS = 5
"""How often the queries are halved; an estimate is the mean over these, each taken both ways."""


def gained(one: Decoded, resamples: int, seed: int) -> Estimate:
    """The centre of gravity of the per-layer gains, between r0 and rn.

    The layers are chosen on half of the queries or sentences, their gains told by the other half.
    The gain of r0 is what it tells above a probe that knows nothing; it counts at 0, where Tenney
    et al. 2019 leave it out. NaN where nothing is told: the interval of all gains together begins
    at or below 0.
    """
    groups = len(one.own.good)
    value = _crossed(one, np.ones((1, groups)), seed)[0]
    drawn = [np.empty((0, len(value)))]
    if groups > 1:
        every = bootstrap_weights(groups, resamples, seed, width=groups)
        drawn += [_crossed(one, weights, seed) for weights in every]
    samples = np.concatenate(drawn)
    ends = percentile_interval(samples.sum(axis=1))
    told = ends[0] if ends else value.sum()
    if not told > 0:
        return Estimate(float("nan"), np.full(len(samples), np.nan))
    return Estimate(float(_between(value)), _between(samples))


def _crossed(one: Decoded, weights: FloatArray, seed: int) -> FloatArray:
    """Gains [R, layers] under weights of queries [R, groups]; a single query cannot be halved."""
    groups = weights.shape[1]
    if groups < 2:
        return gains(_scores(one, weights), _scores(one, weights))
    rng = np.random.default_rng([seed, 10])
    found = []
    for _ in range(SPLITS):
        half = rng.permutation(groups) % 2 == 0
        left, right = (_scores(one, weights * side) for side in (half, ~half))
        found += [gains(left, right), gains(right, left)]
    return means(np.stack(found))


def _scores(one: Decoded, weights: FloatArray) -> FloatArray:
    """[R, 1 + layers]: a probe that knows nothing, then r0 to rn."""
    return np.concatenate([one.majority.score(weights), one.own.score(weights)], axis=1)


def _between(found: FloatArray) -> FloatArray:
    """The centre of gains [..., layers], not outside the layers; NaN where they come to nothing."""
    told = np.where(found.sum(axis=-1, keepdims=True) > 0, found, np.nan)
    return np.clip(centre(told), 0, found.shape[-1] - 1)


def mix_gravity(one: Mixed, name: str, resamples: int, seed: int) -> Estimate:
    """The centre of gravity of a mix's weights."""
    return _refitted(centre(one.weights), centre(one.refitted), name, resamples, seed)


def mix_entropy(one: Mixed, name: str, resamples: int, seed: int) -> Estimate:
    """The entropy of a mix's weights, in nats."""
    return _refitted(entropy(one.weights), entropy(one.refitted), name, resamples, seed)


def _refitted(
    value: FloatArray, refitted: FloatArray, name: str, resamples: int, seed: int
) -> Estimate:
    """A value of the mix; its samples are normal, with the deviation that the refits have."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    error = float(np.std(refitted, ddof=1))
    return Estimate(float(value), float(value) + error * rng.standard_normal(resamples))


def at_layers(sums: Sums, layers: Sequence[int], resamples: int, seed: int) -> Estimate:
    """The mean score over some layers."""
    drawn = sums.resampled(resamples, seed)[:, list(layers)].mean(axis=1)
    return Estimate(float(sums.score()[list(layers)].mean()), drawn)
