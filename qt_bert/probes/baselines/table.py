"""The record of the baselines beside the run's pairs, and what is measured of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from qt_bert.data.pairs import GRADES
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Context
from qt_bert.probes.baselines.heads import BoundaryHead, MatchingHead
from qt_bert.results.baselines import (
    LSTM,
    LSTM_WORDS,
    Baselines,
    digest_of,
    labels_of,
    read_baselines,
)
from qt_bert.stats.comparison import DRAWS, Difference, compare
from qt_bert.stats.intervals import bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.judgements import Judgements, judge_grades
from qt_bert.stats.metrics import METRICS

QUICK_DRAWS = 1_999
"""Exchanges of predictions behind a p-value, in the profile `quick`."""
RHO = "spearman"
SHOWN = (RHO, "qwk", "accuracy", "macro_f1", "ndcg_at_5")
"""The metrics of the table."""


class Measured(NamedTuple):
    """A metric with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Table:
    """A record, judged with the resamples, the draws and the seed of the run."""

    stored: Baselines
    resamples: int
    seed: int
    draws: int = DRAWS

    @property
    def names(self) -> list[str]:
        """The rows, in order."""
        return [row.name for row in self.stored.record.rows]

    @cached_property
    def judgements(self) -> dict[str, Judgements]:
        """What each model says, beside the labels."""
        sets = [
            tuple(int(grade) + 1 for grade in np.flatnonzero(row)) for row in self.stored.labels
        ]
        queries = [str(query) for query in self.stored.queries]
        return {
            name: judge_grades(self.stored.of(name).astype(np.float64), sets, queries)
            for name in self.names
        }

    @cached_property
    def measured(self) -> dict[str, dict[str, Measured]]:
        """The metrics of each model, by model and by metric."""
        return {name: self._measure(one) for name, one in self.judgements.items()}

    def _measure(self, judged: Judgements) -> dict[str, Measured]:
        estimators = [METRICS[name].estimator(judged) for name in SHOWN]
        weights = bootstrap_weights(judged.n_queries, self.resamples, self.seed, width=len(judged))
        plain = resample(estimators, iter([np.ones((1, judged.n_queries))]))[:, 0]
        found = {}
        for name, value, samples in zip(SHOWN, plain, resample(estimators, weights), strict=True):
            low, high, _ = interval_or_reason(samples, judged.n_queries)
            found[name] = Measured(None if np.isnan(value) else float(value), low, high)
        return found

    def difference(self, name: str, than: str) -> Difference:
        """How far ρ of the model `name` lies above that of `than`."""
        found = compare(
            self.judgements[than],
            self.judgements[name],
            metrics=(RHO,),
            resamples=self.resamples,
            draws=self.draws,
            seed=self.seed,
            most_different=0,
        )
        return found.metrics[RHO]

    @cached_property
    def lstm(self) -> str:
        """Of the two LSTM matchers the one that is better on discovery."""
        record = self.stored.record

        def known(name: str) -> float:
            value = record.row(name).discovery
            return -1.0 if value is None else value

        return max((LSTM, LSTM_WORDS), key=known)

    @cached_property
    def boundary(self) -> dict[str, BoundaryHead]:
        """The best boundary head of each model that could be asked."""
        found = self.stored.boundary.items()
        return {name: BoundaryHead(one, self.resamples, self.seed) for name, one in found}

    @cached_property
    def matching(self) -> dict[str, MatchingHead]:
        """The best matching head of each model that could be asked."""
        found = self.stored.matching.items()
        return {name: MatchingHead(one, self.resamples, self.seed) for name, one in found}


def table(context: Context) -> Table | None:
    """The table that goes with the run's validation pairs; None where none was given.

    Raises ArgumentError for one of other pairs or labels, RunFolderError for a damaged one.
    """
    if context.baseline_table is None:
        return None
    stored = read_baselines(context.baseline_table)
    texts = [(pair.query, pair.title) for pair in context.validation]
    if digest_of(texts) != stored.record.digest:
        measured = stored.record.pairs
        raise ArgumentError(
            f"--baseline-table {context.baseline_table}: measured on the {measured.n_pairs} pairs "
            f"of {measured.name}, not on these {len(texts)}; make one with experiments/baselines"
        )
    if _is_graded(context) and not np.array_equal(
        labels_of(pair.grades for pair in context.validation), stored.labels
    ):
        raise ArgumentError(
            f"--baseline-table {context.baseline_table}: the pairs have other labels by now; make it "
            "anew with experiments/baselines"
        )
    draws = context.choose(QUICK_DRAWS, DRAWS)
    return Table(stored, context.resamples, context.seed, draws)


def _is_graded(context: Context) -> bool:
    """Whether the run reads labels as the five grades: for a model of other levels it does not."""
    return context.model.checkpoint.settings.labels.grades == tuple((grade,) for grade in GRADES)
