"""Shares of a gap: what patches move, over what replacing the term moves.

Sums over pairs are divided, never pair by pair: where a gap is near 0 the quotient of one pair may
be of any size and own the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, IntArray, ratio, sum_by
from qt_bert.evaluation.intervals import bootstrap_weights, percentile_interval
from qt_bert.evaluation.judgements import index_queries
from qt_bert.probes.common.draws import Estimate, mean_over

SMALL = 0.05
"""A gap of less than this part of a grade counts as small."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of the gap: `values` [variants] and resampled ones [R, variants]; NaN where there is none."""

    values: FloatArray
    samples: FloatArray

    def of(self, variant: int) -> Estimate:
        """That of one variant."""
        return Estimate(float(self.values[variant]), self.samples[:, variant])

    def mean(self, seed: int, name: str) -> Estimate | None:
        """The mean over variants that are random draws, with the chance of the draws; None for none."""
        if not len(self.values):
            return None
        return Estimate(float(self.values.mean()), mean_over(self.samples.T, seed, name))

    def intervals(self) -> list[tuple[float, float] | None]:
        """The 95 % interval of each variant."""
        return [percentile_interval(column) for column in self.samples.T]


@dataclass(frozen=True, eq=False)
class Gap:
    """What replacing the term takes from the score of each pair [pairs].

    `query` [pairs] numbers the pairs' queries, which are resampled `resamples` times.
    """

    per_pair: FloatArray
    query: IntArray
    resamples: int
    seed: int

    @classmethod
    def of(cls, per_pair: FloatArray, queries: Sequence[str], resamples: int, seed: int) -> Gap:
        """The gap of pairs with these queries."""
        index, _ = index_queries(queries)
        return cls(per_pair, index, resamples, seed)

    @property
    def n_queries(self) -> int:
        return int(self.query.max(initial=-1)) + 1

    @cached_property
    def mean(self) -> Estimate:
        """The mean over pairs; its resamples draw queries."""
        sizes = self.by_query(np.ones((1, len(self.per_pair))))
        (samples,) = self._resampled(self._sums[None], sizes[0]).T
        return Estimate(float(self.per_pair.mean()), samples)

    @cached_property
    def known(self) -> bool:
        """Whether there is a gap: the 95 % interval of its mean leaves out 0."""
        ends = percentile_interval(self.mean.samples)
        moved = ends is None or not ends[0] <= 0 <= ends[1]
        return self.n_queries > 1 and moved and self.mean.value != 0

    @property
    def small(self) -> int:
        """Of how many pairs the gap is under 0.05, negative ones too."""
        return int((self.per_pair < SMALL).sum())

    @property
    def negative(self) -> int:
        """Of how many pairs the score rises where the term is replaced."""
        return int((self.per_pair < 0).sum())

    def share(self, moves: FloatArray) -> Shares:
        """Σ moves / Σ gaps, of `moves` [variants, pairs]; none where there is no gap.

        A resample whose gap has another sign than the gap itself has no share.
        """
        if not self.known:
            return Shares(
                np.full(len(moves), np.nan), np.full((self.resamples, len(moves)), np.nan)
            )
        total, sums = self._sums.sum(), self.by_query(moves)
        samples = self._resampled(sums, self._sums)
        (signed,) = self._resampled(self._sums[None], np.ones(self.n_queries)).T
        samples[~(signed * total > 0)] = np.nan
        return Shares(np.asarray(sums.sum(axis=1) / total), samples)

    def towards(self, moves: FloatArray) -> FloatArray:
        """Sums over each query's pairs [variants, queries], above 0 where they make up for the gap."""
        return np.sign(self.mean.value) * self.by_query(moves)

    def by_query(self, values: FloatArray) -> FloatArray:
        """Sums over the pairs of each query [variants, pairs] → [variants, queries]."""
        found = [sum_by(self.query, row, self.n_queries) for row in values]
        return np.stack(found) if found else np.empty((0, self.n_queries))

    @cached_property
    def _sums(self) -> FloatArray:
        return self.by_query(self.per_pair[None])[0]

    def _resampled(self, sums: FloatArray, over: FloatArray) -> FloatArray:
        """Σ sums / Σ over under the same resampled queries [R, variants]."""
        drawn = bootstrap_weights(self.n_queries, self.resamples, self.seed, width=self.n_queries)
        chunks = [ratio(weights @ sums.T, (weights @ over)[:, None]) for weights in drawn]
        return np.concatenate([np.empty((0, len(sums))), *chunks])
