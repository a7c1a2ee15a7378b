"""Shares of a change that travel directly: ratios of sums over pairs, resampled over queries.

Numerator and denominator are resampled together. A mean of ratios by pair would be owned by the pairs
whose change is nearly 0; a ratio of sums is not, unless the sum itself may be 0: then there is none.
"""

from __future__ import annotations

import numpy as np

from qt_bert.probes.controls import rank_p
from qt_bert.probes.naming import Estimate, mean_over
from qt_bert.probes.routes.passes import OUTCOMES, WAYS, Changes, Outcome, Way
from qt_bert.stats.arrays import FloatArray, ratio
from qt_bert.stats.intervals import bootstrap_weights, percentile_interval

UNDEFINED = Estimate(float("nan"), np.empty(0))


class Shares:
    """What of the senders' changes reaches the receivers directly.

    Everything that rests on as many queries is resampled alike.
    """

    def __init__(self, changes: Changes, resamples: int, seed: int) -> None:
        self.n_queries = changes.sums.shape[1]
        self._pairs, self._seed = changes.pairs, seed
        self._sums = changes.sums.sum(axis=1)
        self._samples = _resampled(changes.sums, resamples, seed)

    def change(self, outcome: Outcome, sender: int = 0, receiver: int = 0) -> Estimate:
        """What leaving the sender out changes with nothing held, mean over pairs."""
        pairs = self.n_pairs(outcome, receiver)
        found = self._of(outcome, sender, receiver, "total")
        return found.times(1 / pairs) if pairs else UNDEFINED

    def n_pairs(self, outcome: Outcome, receiver: int = 0) -> int:
        """How many pairs the outcome is defined for."""
        return int(self._pairs[OUTCOMES.index(outcome), receiver])

    def told(self, outcome: Outcome, sender: int = 0, receiver: int = 0) -> bool:
        """Whether the interval of the sender's change leaves 0 out, so that a share is defined."""
        return _told(self._of(outcome, sender, receiver, "total"))

    def share(
        self, outcome: Outcome, way: Way, sender: int = 0, receiver: int = 0, of: int | None = None
    ) -> Estimate:
        """Σ direct change / Σ change of the sender, or of the sender `of`; NaN where that is not told."""
        whole = self._of(outcome, sender if of is None else of, receiver, "total")
        if not _told(whole):
            return UNDEFINED
        return _quotient(self._of(outcome, sender, receiver, way), whole)

    def controls(self, outcome: Outcome, way: Way) -> Estimate:
        """The mean share of the senders behind the first, in units of the first one's change.

        Its interval holds the chance of the draws beside that of the queries.
        """
        whole, drawn = self._of(outcome, 0, 0, "total"), self._drawn(outcome, way)
        if not drawn or not _told(whole):
            return UNDEFINED
        shares = [_quotient(one, whole) for one in drawn]
        stacked = np.array([one.samples for one in shares])
        samples = mean_over(stacked, self._seed, f"{outcome}.{way}")
        return Estimate(float(np.mean([one.value for one in shares])), samples)

    def pooled(self, outcome: Outcome, way: Way) -> Estimate:
        """What of their own change the senders behind the first send directly, all taken together."""
        totals, directs = (self._drawn(outcome, one) for one in ("total", way))
        if not totals:
            return UNDEFINED
        whole, direct = _sum(totals), _sum(directs)
        return _quotient(direct, whole) if _told(whole) else UNDEFINED

    def beyond(self, outcome: Outcome, way: Way) -> tuple[Estimate, float | None]:
        """The first sender's share less that of the others in the same unit, and its rank among them."""
        own, others = self.share(outcome, way), self.controls(outcome, way)
        if np.isnan(own.value) or np.isnan(others.value):
            return UNDEFINED, None
        drawn = range(1, self._sums.shape[1])
        shares = np.array([self.share(outcome, way, one, of=0).value for one in drawn])
        return own.less(others), rank_p(own.value, shares, below=False)

    def _of(self, outcome: Outcome, sender: int, receiver: int, way: Way) -> Estimate:
        """A sum, with its resampled values."""
        place = (OUTCOMES.index(outcome), sender, receiver, WAYS.index(way))
        return Estimate(float(self._sums[place]), self._samples[(slice(None), *place)])

    def _drawn(self, outcome: Outcome, way: Way) -> list[Estimate]:
        return [self._of(outcome, sender, 0, way) for sender in range(1, self._sums.shape[1])]


def _resampled(sums: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Sums over resampled queries [R, …] of `sums` [outcomes, queries, …]; none of a single query."""
    by_query = np.moveaxis(sums, 1, 0)
    empty = np.empty((0, *by_query.shape[1:]))
    if len(by_query) < 2:
        return empty
    drawn = bootstrap_weights(len(by_query), resamples, seed, width=len(by_query))
    return np.concatenate([empty, *(np.tensordot(weights, by_query, 1) for weights in drawn)])


def _told(whole: Estimate) -> bool:
    ends = percentile_interval(whole.samples)
    return ends is not None and not ends[0] <= 0 <= ends[1]


def _quotient(part: Estimate, whole: Estimate) -> Estimate:
    return Estimate(part.value / whole.value, ratio(part.samples, whole.samples))


def _sum(found: list[Estimate]) -> Estimate:
    return Estimate(
        float(np.sum([one.value for one in found])), np.sum([one.samples for one in found], axis=0)
    )
