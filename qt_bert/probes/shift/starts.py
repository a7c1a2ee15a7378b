"""The initialisation study's figures: what each start reached, and by how much they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.data.pairs import GRADES, Pair
from qt_bert.errors import ArgumentError
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.results.initialisations import ARMS, Record, SplitOutputs, read_initialisations
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval

METRICS = ("accuracy", "qwk", "spearman")


@dataclass(frozen=True, eq=False)
class Reached:
    """One arm by one metric: the mean over its seeds, resampled over queries, and each seed's."""

    value: float
    samples: FloatArray
    seeds: tuple[float, ...]

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % of the mean, over queries."""
        return percentile_interval(self.samples)

    def over(self, other: Reached) -> tuple[float, FloatArray]:
        """How far this lies above `other`, and the same under each resample; both saw the same."""
        return self.value - other.value, self.samples - other.samples


@dataclass(frozen=True, eq=False)
class Starts:
    """A record and the metrics of its arms on its own validation pairs."""

    record: Record
    outputs: SplitOutputs
    resamples: int
    seed: int

    @property
    def n_pairs(self) -> int:
        """Pairs of the study's validation file."""
        return len(self.outputs.queries)

    @property
    def n_queries(self) -> int:
        """Queries among them."""
        return self._effects.n_queries

    @property
    def seeds(self) -> list[int]:
        """The seeds that every arm was run with, in the order of its runs."""
        final = [self.record.tries[place] for place in self.record.final]
        return [one.seed for one in final if one.arm == ARMS[0]]

    def reached(self, arm: str, metric: str) -> Reached:
        """What the runs of an arm reached."""
        rows = self.record.runs(arm)
        values = [self._effects.value(row, metric) for row in rows]
        known = tuple(np.nan if value is None else value for value in values)
        changes = np.mean([self._effects.resampled(row, metric) for row in rows], axis=0)
        [base] = self._effects.resampled_base([metric])
        return Reached(float(np.mean(known)), changes + base, known)

    @cached_property
    def _effects(self) -> Effects:
        labels = ModelLabels(len(self.record.grades), self.record.grades)
        return Effects(
            self.outputs.logits,
            _pairs(self.outputs),
            labels,
            resamples=self.resamples,
            draws=0,
            seed=self.seed,
        )


def open_starts(folder: Path, base: Checkpoint, resamples: int, seed: int) -> Starts:
    """The study in `folder`, which must have started from `base`.

    Raises ArgumentError where it started from another model, RunFolderError where it is damaged.
    """
    found = read_initialisations(folder)
    if found.record.base.sha256 != base.sha256:
        raise ArgumentError(
            f"--initialisations {folder}: that study started from {found.record.base.name}, whose "
            f"weights are not those of --base {base.folder}; run experiments/initialisations on it"
        )
    return Starts(found.record, found.outputs["validation"], resamples, seed)


def _pairs(outputs: SplitOutputs) -> Sequence[Pair]:
    """The pairs without their texts: a number for each query, and the grades."""
    grades = np.array(GRADES)
    return [
        Pair(str(query), "", tuple(grades[allowed].tolist()), str(row), row, None, {})
        for row, (query, allowed) in enumerate(zip(outputs.queries, outputs.labels, strict=True))
    ]
