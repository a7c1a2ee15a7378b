"""Centres of gravity and scores of one model, with their resamples."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from qt_bert.probes.common.draws import Estimate
from qt_bert.probes.encoded.decode import Decoded
from qt_bert.probes.encoded.gravity import centre, gains
from qt_bert.probes.encoded.mix import Mixed
from qt_bert.probes.encoded.scores import Sums


def gained(one: Decoded, resamples: int, seed: int) -> Estimate:
    """The centre of gravity of the per-layer gains; NaN where no layer is above a probe that knows
    nothing."""
    floor = one.majority
    value = centre(gains(one.score, floor.score()[0]))
    drawn = gains(one.own.resampled(resamples, seed), floor.resampled(resamples, seed)[:, 0])
    return Estimate(float(value), centre(drawn))


def of_mix(one: Mixed, name: str, resamples: int, seed: int) -> Estimate:
    """The centre of gravity of a mix's weights; its samples are normal, with the refits' deviation."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return Estimate(one.gravity, one.gravity + one.error * rng.standard_normal(resamples))


def mean_of(estimates: Sequence[Estimate]) -> Estimate | None:
    """The mean of those that have a value; None where none has."""
    known = [one for one in estimates if np.isfinite(one.value)]
    if not known:
        return None
    samples = np.mean([one.samples for one in known], axis=0)
    return Estimate(float(np.mean([one.value for one in known])), samples)


def at_layers(sums: Sums, layers: Sequence[int], resamples: int, seed: int) -> Estimate:
    """The mean score over some layers."""
    drawn = sums.resampled(resamples, seed)[:, list(layers)].mean(axis=1)
    return Estimate(float(sums.score()[list(layers)].mean()), drawn)
