"""How good decisions are: accuracy, balanced accuracy, F1 of boundaries and of words, by query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qt_bert.evaluation.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.evaluation.intervals import bootstrap_weights
from qt_bert.probes.word_ends.decisions import Decisions

MEASURES = ("accuracy", "balanced", "f1", "word_f1")
HIT, TRUE_NO, ENDS, GOES_ON, SAID, WORDS_HIT, WORDS, WORDS_SAID = range(8)


@dataclass(frozen=True, eq=False)
class Judged:
    """Decisions counted by query: `counts` [Q, 8] (the columns are the constants above).

    `resamples` and `seed` are those of all intervals, so that two of these may be compared.
    """

    counts: FloatArray
    resamples: int
    seed: int

    @property
    def n_queries(self) -> int:
        return len(self.counts)

    def value(self, measure: str) -> float:
        """One of `MEASURES`, over all decisions; NaN where it is not defined."""
        return float(measured(measure, self.counts.sum(0)))

    def samples(self, measure: str) -> FloatArray:
        """The measure under each resample of the queries [R]."""
        return measured(measure, self._resampled)

    def accuracy_shares(self) -> FloatArray:
        """Shares of the queries in the accuracy [Q], whose mean it is; for differences of two."""
        right = self.counts[:, HIT] + self.counts[:, TRUE_NO]
        return ratio(right * len(right), self.counts[:, [ENDS, GOES_ON]].sum())

    def excess(self, least: float) -> FloatArray:
        """Balanced accuracy less `least`, linearised by query for a test [Q]; that is its mean.

        A query counts by its right answers beyond those that its size would bring if balanced
        accuracy were `least`: both rates lowered alike, for the totals they are taken of vary with
        the queries, too (the delta method for ratios, at the null).
        """
        total, one = self.counts.sum(0), self.counts
        over = self.value("balanced") - least
        found = np.zeros(self.n_queries)
        for right, asked in ((HIT, ENDS), (TRUE_NO, GOES_ON)):
            rate = ratio(total[right], total[asked]) - over
            found += ratio(one[:, right] - rate * one[:, asked], total[asked])
        return found * self.n_queries / 2

    @cached_property
    def _resampled(self) -> FloatArray:
        if not self.n_queries:
            return np.empty((0, self.counts.shape[1]))
        drawn = bootstrap_weights(self.n_queries, self.resamples, self.seed, width=self.n_queries)
        return np.concatenate([weights @ self.counts for weights in drawn] or [self.counts[:0]])


def measured(measure: str, counts: FloatArray) -> FloatArray:
    """A measure of counts [..., 8]; NaN where it is not defined."""
    hit, ends, goes_on = counts[..., HIT], counts[..., ENDS], counts[..., GOES_ON]
    if measure == "accuracy":
        return ratio(hit + counts[..., TRUE_NO], ends + goes_on)
    if measure == "balanced":
        return (ratio(hit, ends) + ratio(counts[..., TRUE_NO], goes_on)) / 2
    if measure == "f1":
        return ratio(2 * hit, ends + counts[..., SAID])
    return ratio(2 * counts[..., WORDS_HIT], counts[..., WORDS] + counts[..., WORDS_SAID])


def counts_of(said: BoolArray, labels: BoolArray, decisions: Decisions) -> FloatArray:
    """Counts by query [Q, 8] of decisions `said` against `labels`, both [D]."""
    starts = decisions.query_starts
    if not len(decisions):
        return np.zeros((0, 8))
    by_decision = np.stack(
        [said & labels, ~said & ~labels, labels, ~labels, said, *_words(said, labels, decisions)]
    )
    return np.add.reduceat(by_decision.astype(np.float64), starts, axis=1).T


def _words(said: BoolArray, labels: BoolArray, decisions: Decisions) -> list[IntArray]:
    """Words found, of the reference and said, counted at a decision of their run [3, D].

    A run of n decisions is a text of n + 1 characters: both cut it at its two ends. A word is found
    where both begin and end it, and neither cuts it.
    """
    first = np.flatnonzero(decisions.run_starts)
    last = np.append(first[1:], len(said)) - 1
    found = np.zeros(len(said), np.int64)
    either, both = said | labels, said & labels
    places = np.flatnonzero(either)
    run = np.cumsum(decisions.run_starts) - 1
    # Cuts in order, the ends of every run among them: −1 before its first decision, +1 behind.
    at = np.concatenate([2 * places, 2 * first - 1, 2 * last + 1])
    agreed = np.concatenate([both[places], np.ones(2 * len(first), bool)])
    runs = np.concatenate([run[places], run[first], run[last]])
    order = np.lexsort((at, runs))
    agreed, runs = agreed[order], runs[order]
    right = agreed[:-1] & agreed[1:] & (runs[:-1] == runs[1:])
    np.add.at(found, first[runs[:-1][right]], 1)
    edge = decisions.run_starts.astype(np.int64)
    return [found, labels + edge, said + edge]


def auc(values: npt.NDArray[np.floating[Any]], labels: BoolArray) -> FloatArray:
    """The chance that a word end has the larger value [..., D] → [...]; NaN for one kind alone."""
    from scipy.stats import rankdata

    ends = int(labels.sum())
    goes_on = labels.size - ends
    if not ends or not goes_on:
        return np.full(values.shape[:-1], np.nan)
    ranks = rankdata(values, axis=-1)[..., labels].sum(-1)
    return np.asarray((ranks - ends * (ends + 1) / 2) / (ends * goes_on))
