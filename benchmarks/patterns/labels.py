"""The labels of the drawn maps, and how far two passes agree."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray, IntArray
from qt_bert.probes.map_patterns.kinds import KINDS, WHOLE

FIRST, SECOND = "labels.csv", "second.csv"


@dataclass(frozen=True)
class Label:
    """What a map was called in one pass; `whole` for a block over everything."""

    kind: str
    whole: bool = False


def read_labels(path: Path, ids: list[str]) -> list[Label]:
    """One label for each of `ids`, in their order.

    Raises ArgumentError naming the map that lacks one, has two, or has one that is no kind.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [{key: value.strip() for key, value in row.items()} for row in csv.DictReader(file)]
    found: dict[str, Label] = {}
    for row in rows:
        if row["id"] in found:
            raise ArgumentError(f"{path}: {row['id']} is labelled twice")
        if row["label"] not in KINDS:
            raise ArgumentError(f"{path}: {row['id']} is called {row['label']!r}; use {KINDS}")
        found[row["id"]] = Label(row["label"], row["note"] == WHOLE)
    different = set(ids) ^ set(found)
    if different:
        raise ArgumentError(f"{path}: {min(different)} is a map or a label without the other")
    return [found[id] for id in ids]


def places(labels: list[Label]) -> IntArray:
    """The labels as places in KINDS."""
    return np.array([KINDS.index(one.kind) for one in labels])


def table_of(rows: IntArray, columns: IntArray, weights: FloatArray | None = None) -> FloatArray:
    """How often each kind (row) met each kind (column) [KINDS, KINDS]; `weights` [n] count more."""
    table = np.zeros((len(KINDS), len(KINDS)))
    np.add.at(table, (rows, columns), 1.0 if weights is None else weights)
    return table


def kappa(table: FloatArray) -> float:
    """Cohen's κ of a table of two passes; NaN where chance alone agrees always."""
    shares = table / table.sum()
    agreed, chance = np.trace(shares), float(shares.sum(0) @ shares.sum(1))
    return float((agreed - chance) / (1 - chance)) if chance < 1 else float("nan")


def f1(table: FloatArray) -> FloatArray:
    """F1 of every kind, labels as rows [KINDS]; NaN for a kind that occurs in neither."""
    hits, met = np.diag(table), table.sum(0) + table.sum(1)
    return np.divide(2 * hits, met, out=np.full(len(table), np.nan), where=met > 0)


def macro_f1(table: FloatArray, kinds: Sequence[str]) -> float:
    """The mean F1 over `kinds`; one that occurs in neither counts as 0."""
    chosen = [KINDS.index(kind) for kind in kinds]
    return float(np.nan_to_num(f1(table)[chosen]).mean())
