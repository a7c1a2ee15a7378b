"""Both classifiers judged on heads that they were not fitted on, beside how far people agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.patterns.fit_network import fit_network
from benchmarks.patterns.fit_rules import fit_rules
from benchmarks.patterns.folds import folds
from benchmarks.patterns.labels import f1, kappa, macro_f1, table_of
from qt_bert.evaluation.arrays import FloatArray, IntArray
from qt_bert.evaluation.intervals import bootstrap_weights, percentile_interval
from qt_bert.probes.map_patterns.classifier import NETWORK, RULES, Judged, Measured, Passes
from qt_bert.probes.map_patterns.features import features
from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.maps import Maps
from qt_bert.probes.map_patterns.stored import DrawnMap

LEAST_MAPS = 10
"""A kind with fewer labelled maps is not in the macro-F1: its F1 would be luck."""
RESAMPLES = 2000


def counted(labels: IntArray) -> tuple[str, ...]:
    """The kinds that are in the macro-F1."""
    counts = np.bincount(labels, minlength=len(KINDS))
    return tuple(kind for kind, count in zip(KINDS, counts, strict=True) if count >= LEAST_MAPS)


def held_out(
    maps: Sequence[DrawnMap], labels: IntArray, group: IntArray, seed: int
) -> dict[str, IntArray]:
    """What either classifier says of every map [n] when it was fitted on other heads alone."""
    seen = features(Maps.of_drawn(maps)).double().numpy()
    said: dict[str, IntArray] = {name: np.full(len(maps), -1) for name in (RULES, NETWORK)}
    for fitted, judged in folds(labels, group, seed):
        said[RULES][judged] = fit_rules(seen[fitted], labels[fitted]).of_features(seen[judged])
        network = fit_network([maps[row] for row in fitted], labels[fitted], seed)
        others = Maps.of_drawn([maps[row] for row in judged])
        said[NETWORK][judged] = network.probabilities(others).argmax(-1).numpy()
    return said


def judge(said: IntArray, labels: IntArray, group: IntArray, seed: int) -> Judged:
    """The figures of one classifier's answers."""
    kinds = counted(labels)
    table = table_of(labels, said)
    return Judged(
        macro_f1=_measured(labels, said, group, seed, lambda table: macro_f1(table, kinds)),
        macro_f1_all=macro_f1(table, KINDS),
        accuracy=float(np.trace(table) / table.sum()),
        f1=tuple(None if np.isnan(one) else float(one) for one in f1(table)),
        confusion=_whole(table),
    )


def compare_passes(first: IntArray, second: IntArray, group: IntArray, seed: int) -> Passes:
    """The agreement of two people who labelled the same maps."""
    table = table_of(first, second)
    return Passes(
        kappa=_measured(first, second, group, seed, kappa),
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
    samples = [
        figure(table_of(rows, columns, weights[group]))
        for chunk in bootstrap_weights(int(group.max()) + 1, RESAMPLES, seed, width=len(rows))
        for weights in chunk
    ]
    low, high = percentile_interval(np.array(samples)) or (float("nan"), float("nan"))
    return Measured(value=figure(table_of(rows, columns)), low=low, high=high)


def _whole(table: FloatArray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(one) for one in row) for row in table)
