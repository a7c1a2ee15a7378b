"""Both classifiers judged on heads that they were not fitted on, beside how far two passes agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.patterns.fit_network import fit_network
from benchmarks.patterns.fit_rules import fit_rules
from benchmarks.patterns.folds import folds
from benchmarks.patterns.labels import f1, kappa, macro_f1, table_of
from qt_bert.evaluation.arrays import BoolArray, FloatArray, IntArray
from qt_bert.evaluation.intervals import bootstrap_weights, percentile_interval
from qt_bert.probes.map_patterns.classifier import Judged, Measured, Passes
from qt_bert.probes.map_patterns.correction import LEAST_MAPS
from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.maps import Maps
from qt_bert.probes.map_patterns.stored import DrawnMap

RESAMPLES = 2000


def counted(labels: IntArray) -> tuple[str, ...]:
    """The kinds that are in the macro-F1: those with LEAST_MAPS labelled maps."""
    counts = np.bincount(labels, minlength=len(KINDS))
    return tuple(kind for kind, count in zip(KINDS, counts, strict=True) if count >= LEAST_MAPS)


def rules_held_out(features: FloatArray, labels: IntArray, group: IntArray, seed: int) -> IntArray:
    """What the rules say of every map [n] when they were fitted on other heads alone."""
    said = np.full(len(labels), -1)
    for fitted, judged in folds(labels, group, seed):
        rules = fit_rules(features[fitted], labels[fitted])
        said[judged] = rules.of_features(features[judged])
    return said


def network_held_out(
    maps: Sequence[DrawnMap], labels: IntArray, group: IntArray, seed: int
) -> IntArray:
    """The same of the network."""
    said = np.full(len(labels), -1)
    for fitted, judged in folds(labels, group, seed):
        network = fit_network([maps[row] for row in fitted], labels[fitted], seed)
        others = Maps.of_drawn([maps[row] for row in judged])
        said[judged] = network.probabilities(others).argmax(-1).numpy()
    return said


def judge(
    said: IntArray, labels: IntArray, group: IntArray, trained: BoolArray, seed: int
) -> Judged:
    """The figures of one classifier's answers; `trained` [n] marks maps of trained models."""
    kinds = counted(labels)
    table = table_of(labels, said)

    def mean_f1(table: FloatArray) -> float:
        return macro_f1(table, kinds)

    return Judged(
        macro_f1=_measured(labels, said, group, seed, mean_f1),
        macro_f1_trained=_measured(labels[trained], said[trained], group[trained], seed, mean_f1),
        macro_f1_all=macro_f1(table, KINDS),
        accuracy=float(np.trace(table) / table.sum()),
        f1=tuple(None if np.isnan(one) else float(one) for one in f1(table)),
        confusion=_whole(table),
    )


def compare_passes(
    first: IntArray, second: IntArray, group: IntArray, trained: BoolArray, seed: int
) -> Passes:
    """The agreement of two passes over the same maps."""
    table = table_of(first, second)
    return Passes(
        kappa=_measured(first, second, group, seed, kappa),
        kappa_trained=_measured(first[trained], second[trained], group[trained], seed, kappa),
        agreed=float(np.trace(table) / table.sum()),
        confusion=_whole(table),
    )


def _measured(
    rows: IntArray,
    columns: IntArray,
    group: IntArray,
    seed: int,
    figure: Callable[[FloatArray], float],
) -> Measured:
    """A figure of a table, its interval by resampling groups."""
    groups, number = np.unique(group, return_inverse=True)
    samples = [
        figure(table_of(rows, columns, weights[number]))
        for chunk in bootstrap_weights(len(groups), RESAMPLES, seed, width=len(rows))
        for weights in chunk
    ]
    low, high = percentile_interval(np.array(samples)) or (float("nan"), float("nan"))
    return Measured(value=figure(table_of(rows, columns)), low=low, high=high)


def _whole(table: FloatArray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(one) for one in row) for row in table)
