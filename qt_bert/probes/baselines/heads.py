"""Heads of the record, resampled by query: how well they tell word ends, how strongly they match."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.probes.matching_cells import OTHER, OWN
from qt_bert.probes.matching_scores import FLOOR
from qt_bert.results.baselines import BoundaryOutputs, MatchingOutputs
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import bootstrap_weights


@dataclass(frozen=True, eq=False)
class BoundaryHead:
    """The chance that a word end has the larger value of a head, over all decisions (AUC)."""

    outputs: BoundaryOutputs
    resamples: int
    seed: int

    @property
    def n_queries(self) -> int:
        """Q."""
        return int(self.outputs.queries.max()) + 1 if len(self.outputs.queries) else 0

    @cached_property
    def value(self) -> float:
        """Over all queries."""
        return float(self._of(np.ones((1, self.n_queries)))[0]) if self.n_queries else float("nan")

    @cached_property
    def samples(self) -> FloatArray:
        """Under each resample of the queries [R]; models of the same texts are resampled alike."""
        if self.n_queries < 2:
            return np.empty(0)
        drawn = bootstrap_weights(
            self.n_queries, self.resamples, self.seed, width=len(self.outputs.values)
        )
        return np.concatenate([np.empty(0), *(self._of(weights) for weights in drawn)])

    def _of(self, weights: FloatArray) -> FloatArray:
        """Weighted AUC [r] under weights of the queries [r, Q]; equal values count by half."""
        order, groups = self._sorted
        labels = self.outputs.labels[order]
        each = weights[:, self.outputs.queries[order]]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        ends = np.add.reduceat(each * labels, starts, axis=1)
        others = np.add.reduceat(each * ~labels, starts, axis=1)
        below = np.cumsum(others, axis=1) - others / 2
        won, all_ends, all_others = (ends * below).sum(1), ends.sum(1), others.sum(1)
        both = all_ends * all_others
        return np.asarray(np.divide(won, both, out=np.full(len(won), np.nan), where=both > 0))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Decisions by value, and the number of each one's value among the distinct ones."""
        order = np.argsort(self.outputs.values, kind="stable")
        _, groups = np.unique(self.outputs.values[order], return_inverse=True)
        return order, groups


@dataclass(frozen=True, eq=False)
class MatchingHead:
    """How many times more a head looks at its own character than with a replaced query.

    As `probes.matching_scores`; 1 is no matching.
    """

    outputs: MatchingOutputs
    resamples: int
    seed: int

    @property
    def n_queries(self) -> int:
        """Q."""
        return len(self.outputs.counts)

    @cached_property
    def value(self) -> float:
        """Over all queries."""
        return float(np.exp(self._log(np.ones((1, self.n_queries)))[0]))

    @cached_property
    def logs(self) -> FloatArray:
        """The logarithm under each resample of the queries [R]."""
        if self.n_queries < 2:
            return np.empty(0)
        drawn = bootstrap_weights(self.n_queries, self.resamples, self.seed, width=self.n_queries)
        return np.concatenate([np.empty(0), *(self._log(weights) for weights in drawn)])

    def _log(self, weights: FloatArray) -> FloatArray:
        counts = weights @ self.outputs.counts
        original, replaced = (
            _log_ratio(weights @ sums, counts)
            for sums in (self.outputs.original, self.outputs.replaced)
        )
        return np.asarray(original - replaced)


def _log_ratio(sums: FloatArray, counts: FloatArray) -> FloatArray:
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0) + FLOOR
    return np.asarray(np.log(means[..., OWN]) - np.log(means[..., OTHER]))
