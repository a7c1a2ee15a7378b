"""From labelled maps to the rules that ship: folds, thresholds, figures, the stored record."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.pattern_maps.stored import CELLS, TABLE, DrawnMap, maps_of, read_maps
from qt_bert.codec import encode
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write, sha256_file, write_json
from qt_bert.heads import Head
from qt_bert.probes.pattern_maps import (
    ANSWERS,
    KINDS,
    LEAST_MAPS,
    RANDOM,
    RECORD,
    RULES,
    RULES_SECOND,
    Agreement,
    Evaluation,
    Rules,
    Score,
    TrainingRecord,
    features,
)
from qt_bert.probes.pattern_maps import FIRST as FIRST_PASS
from qt_bert.probes.pattern_maps import SECOND as SECOND_PASS
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray
from qt_bert.stats.estimate import bootstrap_weights, percentile_interval

# The labels of the drawn maps, and how far two passes agree.

FIRST, SECOND = "labels.csv", "second.csv"
WHOLE = "whole"
"""The note on a block that is spread over all tokens."""


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


# Folds in which no head stands on both sides, whatever model it is in.

FOLDS = 5


def groups(maps: Sequence[DrawnMap]) -> IntArray:
    """The group of every map [n]: one for each layer and head, over all models together.

    A head of a smaller model and the teacher's head that it started as are one group.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    heads = [Head(one.layer, one.head) for one in maps]
    origins = [one.teacher or head for one, head in zip(maps, heads, strict=True)]
    number = {head: place for place, head in enumerate(dict.fromkeys(heads + origins))}
    links = [(number[one], number[other]) for one, other in zip(heads, origins, strict=True)]
    rows, columns = zip(*links, strict=True)
    graph = coo_array((np.ones(len(links)), (rows, columns)), shape=(len(number), len(number)))
    group = connected_components(graph, directed=False)[1]
    return np.array([group[number[head]] for head in heads])


def folds(labels: IntArray, group: IntArray, seed: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(training, held out) rows of FOLDS folds, kinds spread over them as far as groups allow."""
    from sklearn.model_selection import StratifiedGroupKFold

    split = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kinds with fewer maps than folds: there is one
        yield from list(split.split(np.zeros(len(labels)), labels, group))


# Fitting the thresholds of the transparent classifier, one after the other, on labelled maps.

ROUNDS = 4
FITTED = ("even", "even_own", "band", "columns")
"""The threshold for vertical + diagonal maps is set: fitted, too, it does worse on other heads."""
GRID = tuple(np.linspace(0.05, 0.95, 37).round(3).tolist())


def fit_rules(features: FloatArray, labels: IntArray) -> Rules:
    """The thresholds of the best macro-F1 over the kinds that are there, each from GRID.

    They are set in turn, ROUNDS times; the value in the middle of the equally good ones is taken.
    """
    present = [kind for place, kind in enumerate(KINDS) if (labels == place).any()]

    def score(rules: Rules) -> float:
        return macro_f1(table_of(labels, rules.of_features(features)), present)

    rules = Rules()
    for _ in range(ROUNDS):
        for name in FITTED:
            tried = [replace(rules, **{name: value}) for value in GRID]
            scores = np.array([score(one) for one in tried])
            best = np.flatnonzero(scores >= scores.max() - 1e-12)
            rules = tried[best[len(best) // 2]]
    return rules


# Both classifiers judged on heads that they were not fitted on, beside how far two passes agree.

RESAMPLES = 2000


def counted(labels: IntArray) -> tuple[str, ...]:
    """The kinds that are in the macro-F1: those with LEAST_MAPS labelled maps."""
    counts = np.bincount(labels, minlength=len(KINDS))
    return tuple(kind for kind, count in zip(KINDS, counts, strict=True) if count >= LEAST_MAPS)


def rules_held_out(features: FloatArray, labels: IntArray, group: IntArray, seed: int) -> IntArray:
    """What the rules say of every map [n] when they were fitted on other heads alone."""
    predicted = np.full(len(labels), -1)
    for fitted, judged in folds(labels, group, seed):
        rules = fit_rules(features[fitted], labels[fitted])
        predicted[judged] = rules.of_features(features[judged])
    return predicted


def judge(
    predicted: IntArray, labels: IntArray, group: IntArray, trained: BoolArray, seed: int
) -> Evaluation:
    """The figures of one classifier's answers; `trained` [n] marks maps of trained models."""
    table = table_of(labels, predicted)

    def mean_f1(of: BoolArray) -> Score:
        kinds = counted(labels[of])
        return _measured(
            labels[of], predicted[of], group[of], seed, lambda table: macro_f1(table, kinds)
        )

    return Evaluation(
        macro_f1=mean_f1(np.ones_like(trained)),
        macro_f1_trained=mean_f1(trained),
        macro_f1_all=macro_f1(table, KINDS),
        accuracy=float(np.trace(table) / table.sum()),
        f1=tuple(None if np.isnan(one) else float(one) for one in f1(table)),
        confusion=_whole(table),
    )


def compare_passes(
    first: IntArray, second: IntArray, group: IntArray, trained: BoolArray, seed: int
) -> Agreement:
    """The agreement of two passes over the same maps."""
    table = table_of(first, second)
    return Agreement(
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
) -> Score:
    """A figure of a table, its interval by resampling groups."""
    groups, number = np.unique(group, return_inverse=True)
    samples = [
        figure(table_of(rows, columns, weights[number]))
        for chunk in bootstrap_weights(len(groups), RESAMPLES, seed, width=len(rows))
        for weights in chunk
    ]
    low, high = percentile_interval(np.array(samples)) or (float("nan"), float("nan"))
    return Score(value=figure(table_of(rows, columns)), low=low, high=high)


def _whole(table: FloatArray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(one) for one in row) for row in table)


# From labelled maps to the classifier that ships: judged over folds, the better one fitted on all.


def train_classifier(folder: Path, seed: int) -> TrainingRecord:
    """Judge the rules over folds, fit them on all maps, and store."""
    maps = read_maps(folder)
    ids = [one.id for one in maps]
    named = read_labels(folder / FIRST, ids)
    labels = places(named)
    second = places(read_labels(folder / SECOND, ids)) if (folder / SECOND).exists() else None
    seen = features(maps_of(maps)).double().numpy()
    group = groups(maps)
    trained = np.array([one.model != RANDOM for one in maps])
    predicted = rules_held_out(seen, labels, group, seed)
    answers = {FIRST_PASS: labels, RULES: predicted}
    record = TrainingRecord(
        chosen=RULES,
        kinds=KINDS,
        counted=counted(labels),
        maps=len(maps),
        groups=len(set(group.tolist())),
        rules=fit_rules(seen, labels),
        rules_second=None,
        judged={RULES: judge(predicted, labels, group, trained, seed)},
        judged_second=None,
        passes=None,
        examples=examples(maps, named, [labels, predicted, labels if second is None else second]),
        files={},
    )
    if second is not None:
        stricter = rules_held_out(seen, second, group, seed)
        answers |= {SECOND_PASS: second, RULES_SECOND: stricter}
        record = replace(
            record,
            rules_second=fit_rules(seen, second),
            judged_second=judge(stricter, second, group, trained, seed),
            passes=compare_passes(labels, second, group, trained, seed),
        )
    return _store(folder, record, answers_table(maps, group, answers))


def answers_table(
    maps: Sequence[DrawnMap], group: IntArray, answers: Mapping[str, IntArray]
) -> list[list[str]]:
    """`answers.csv`, names first: the source of each map, its labels, and the answers."""
    rows = [
        [one.id, one.model, str(head), *(KINDS[column[place]] for column in answers.values())]
        for place, (one, head) in enumerate(zip(maps, group, strict=True))
    ]
    return [["id", "model", "group", *answers], *rows]


def examples(
    maps: Sequence[DrawnMap], labels: Sequence[Label], passes: Sequence[IntArray]
) -> dict[str, str]:
    """The shortest map of each kind that all `passes` [n] call so, by kind; none where there is none.

    A block over everything is no example of one: an even grey shows nothing.
    """
    agreed = [
        len({int(one[row]) for one in passes}) == 1 and not labels[row].whole
        for row in range(len(maps))
    ]
    found: dict[str, str] = {}
    for row in sorted(range(len(maps)), key=lambda row: len(maps[row].kinds)):
        if agreed[row]:
            found.setdefault(KINDS[passes[0][row]], maps[row].id)
    return found


def _store(folder: Path, record: TrainingRecord, answers: list[list[str]]) -> TrainingRecord:
    """Write the answers and the record."""
    with (
        atomic_write(folder / ANSWERS) as path,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        csv.writer(file, lineterminator="\n").writerows(answers)
    names = (TABLE, CELLS, FIRST, SECOND, ANSWERS)
    files = {name: sha256_file(folder / name) for name in names if (folder / name).exists()}
    record = replace(record, files=files)
    write_json(folder / RECORD, encode(record))
    return record
