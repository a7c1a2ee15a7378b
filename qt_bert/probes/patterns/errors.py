"""What was answered to labelled maps of heads not seen before, `answers.csv`: the classifier's errors."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.probes.patterns.kinds import KINDS
from qt_bert.probes.patterns.stored import RANDOM
from qt_bert.stats.arrays import FloatArray

ANSWERS = "answers.csv"
FIRST, SECOND, RULES_SECOND = "first", "second", "rules_second"
"""Its columns beside `id`, `model`, `group` and a classifier's name: either pass of labels, and what
rules fitted on the second pass say."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Labels (rows) by answers, counted apart for each group of maps of the same head.

    `tables` [groups, KINDS, KINDS] are of trained models alone: maps of random weights are all blocks
    that nobody mistakes, and say nothing of how blocks of a trained model are told.
    """

    tables: FloatArray

    @property
    def confusion(self) -> FloatArray:
        """The confusion matrix over all groups, counts [KINDS, KINDS]."""
        return np.asarray(self.tables.sum(axis=0))

    def redrawn(self, rng: np.random.Generator) -> FloatArray:
        """Another matrix as it could have come out: groups drawn anew, for maps of a head are alike."""
        drawn = rng.integers(len(self.tables), size=len(self.tables))
        return np.asarray(self.tables[drawn].sum(axis=0))


def read_errors(path: Path, labels: str, answers: str) -> Errors:
    """The errors of one column of `answers` against one of `labels`.

    Raises ArgumentError where a column is missing, or holds what is no kind.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["model"] != RANDOM]
        heads = [row["group"] for row in rows]
        told = [(KINDS.index(row[labels]), KINDS.index(row[answers])) for row in rows]
    except (OSError, KeyError, ValueError) as error:
        raise ArgumentError(f"{path}: no table of labels and answers ({error})") from error
    group = np.unique(heads, return_inverse=True)[1]
    label, answer = np.array(told, np.int64).reshape(-1, 2).T
    tables = np.zeros((len(set(heads)), len(KINDS), len(KINDS)))
    np.add.at(tables, (group, label, answer), 1.0)
    return Errors(tables)
