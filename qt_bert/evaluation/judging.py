"""Builders of `Judgements`: one for each way in which a model's outputs meet labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray, IntArray, expectation
from qt_bert.evaluation.judgements import Judgements, Mode, index_queries
from qt_bert.evaluation.labels import (
    FIVE_GRADES,
    GradeSet,
    Labels,
    are_ordered_levels,
    checked_set,
    middle_cut,
    name_set,
    read_labels,
    set_means,
)

SUM_TOLERANCE = 1e-3


class Levels(NamedTuple):
    """Common ground of logits and labels: level sets, and the level of each logit and label."""

    sets: tuple[GradeSet, ...]
    of_logit: list[int]
    of_label: list[int]


def judge_grades(
    probabilities: npt.ArrayLike,
    grade_sets: Sequence[Sequence[int]],
    queries: Sequence[str],
    *,
    model_grades: Sequence[Sequence[int]] = FIVE_GRADES,
) -> Judgements:
    """Judge a model whose K logits stand for grades against labels that are sets of grades.

    `probabilities` [n, K] are softmaxed logits; `model_grades` says which grades each logit
    means (by default logit i = grade i + 1); `grade_sets` and `queries` have one entry a pair.
    The levels are the model's where every label fits into one logit's grades, else the file's
    where every logit fits into one label; where neither holds the mode is `overlapping`.

    Raises ArgumentError for lengths that differ, labels or logits outside 1..5, no pair, NaN.
    """
    labels = read_labels(grade_sets)
    model = tuple(checked_set(tuple(one), f"logit {i}") for i, one in enumerate(model_grades))
    table = checked_probabilities(probabilities, len(labels.index), len(model))
    score = expectation(table, set_means(model))
    ranked = _ranked(score, labels.ranking_truth, labels.auc_cut, queries)
    levels = common_levels(labels, model)
    if levels is None:
        meets = np.array([[bool(set(a) & set(b)) for b in labels.sets] for a in model])
        likeliest = table.argmax(axis=1)
        correct = meets[likeliest, labels.index]
        return replace(ranked, mode="overlapping", predicted=likeliest, correct=correct)
    level_table = _sum_logits(table, levels.of_logit, len(levels.sets))
    truth = np.array(levels.of_label, dtype=np.int64)[labels.index]
    names = tuple(map(name_set, levels.sets))
    at_model = set(levels.sets) == set(model)
    mode: Mode = "grades" if levels.sets == FIVE_GRADES else "levels" if at_model else "coarse"
    return _at_levels(ranked, mode, names, level_table, truth)


def judge_levels(
    probabilities: npt.ArrayLike, level_indices: Sequence[int], queries: Sequence[str]
) -> Judgements:
    """Judge a model of K logits at its own levels, named 0..K-1 and worth 1..K.

    `probabilities` [n, K]; `level_indices` holds each label's level, 0-based.
    Raises ArgumentError for lengths that differ, a label outside the levels, no pair, NaN.
    """
    truth = np.asarray(level_indices)
    if truth.size == 0:
        raise ArgumentError("no graded pair: metrics need at least one pair with a label")
    n_levels = np.shape(probabilities)[-1] if np.ndim(probabilities) else 0
    table = checked_probabilities(probabilities, truth.size, n_levels)
    unfit = np.flatnonzero(~np.isin(truth, np.arange(n_levels)))
    if unfit.size:
        raise ArgumentError(
            f"label {truth[unfit[0]]} of pair {unfit[0]} does not fit the model's {n_levels} "
            f"levels (0..{n_levels - 1}); say what its logits mean with --model-grades"
        )
    numbers = np.arange(1.0, n_levels + 1)
    names = tuple(map(str, range(n_levels)))
    ranked = _ranked(expectation(table, numbers), truth + 1.0, middle_cut(n_levels), queries)
    return _at_levels(ranked, "levels", names, table, truth.astype(np.int64))


def judge_scores(
    scores: npt.ArrayLike,
    grade_sets: Sequence[Sequence[int]],
    queries: Sequence[str],
    *,
    reference: npt.ArrayLike | None = None,
) -> Judgements:
    """Judge a one-logit model by the order it gives: `scores` [n], any scale.

    `reference` [n], where given, is what Spearman sets the scores against instead of the
    labels: the score of the unmasked model when heads are left out.
    Raises ArgumentError for lengths that differ, bad labels, no pair, NaN.
    """
    labels = read_labels(grade_sets)
    score = checked_scores(scores, len(labels.index), "scores")
    ranked = _ranked(score, labels.ranking_truth, labels.auc_cut, queries)
    if reference is None:
        return ranked
    return replace(ranked, spearman_target=checked_scores(reference, len(score), "reference"))


def _ranked(
    score: FloatArray, truth: FloatArray, auc_cut: float, queries: Sequence[str]
) -> Judgements:
    """Judgements of the order alone."""
    if len(queries) != len(score):
        raise ArgumentError(f"{len(queries)} queries for {len(score)} labels")
    query_index, n_queries = index_queries(queries)
    return Judgements(
        mode="score",
        ranking_score=score,
        ranking_truth=truth,
        spearman_target=truth,
        query_index=query_index,
        n_queries=n_queries,
        auc_cut=auc_cut,
    )


def _at_levels(
    ranked: Judgements, mode: Mode, names: tuple[str, ...], table: FloatArray, truth: IntArray
) -> Judgements:
    """The same judgements with levels: probabilities `table` [n, L], labels `truth` [n]."""
    predicted = table.argmax(axis=1)
    return replace(
        ranked,
        mode=mode,
        levels=names,
        truth=truth,
        level_probabilities=table,
        label_probability=table[np.arange(len(truth)), truth],
        predicted=predicted,
        correct=predicted == truth,
    )


def _sum_logits(table: FloatArray, level_of_logit: list[int], n_levels: int) -> FloatArray:
    """Probability of each level [n, L]; logits of level -1 belong to none."""
    level = np.array(level_of_logit)
    return np.stack([table[:, level == one].sum(axis=1) for one in range(n_levels)], axis=1)


def common_levels(labels: Labels, model: tuple[GradeSet, ...]) -> Levels | None:
    """The levels both labels and logits can be told apart at, or None."""
    if are_ordered_levels(model):
        sets = tuple(sorted(model, key=lambda one: sum(one) / len(one)))
        of_label = _owners(labels.sets, sets)
        if of_label is not None and min(of_label) >= 0:
            return Levels(sets, [sets.index(one) for one in model], of_label)
    if labels.kind != "overlapping":
        of_logit = _owners(model, labels.sets)
        if of_logit is not None:
            return Levels(labels.sets, of_logit, list(range(len(labels.sets))))
    return None


def _owners(inner: Sequence[GradeSet], outer: Sequence[GradeSet]) -> list[int] | None:
    """For each inner set the outer one that holds it, -1 where none meets it; None if one spans."""
    owners = []
    for one in inner:
        met = [number for number, other in enumerate(outer) if set(one) & set(other)]
        if len(met) > 1 or (met and not set(one) <= set(outer[met[0]])):
            return None
        owners.append(met[0] if met else -1)
    return owners


def checked_probabilities(probabilities: npt.ArrayLike, n: int, n_logits: int) -> FloatArray:
    """`probabilities` as float64 [n, n_logits], or ArgumentError saying what is wrong where."""
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != n_logits or n_logits < 2:
        raise ArgumentError(f"probabilities have shape {table.shape}, not (pairs, {n_logits})")
    if len(table) != n:
        raise ArgumentError(f"{len(table)} rows of probabilities for {n} labels")
    usable = (table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) <= SUM_TOLERANCE)
    if not usable.all():
        row = int(np.argmin(usable))
        raise ArgumentError(f"pair {row} has the probabilities {table[row]}: they must sum to 1")
    return table


def checked_scores(scores: npt.ArrayLike, n: int, name: str) -> FloatArray:
    """`scores` as float64 [n], or ArgumentError saying what is wrong where."""
    array = np.asarray(scores, dtype=np.float64)
    if array.shape != (n,):
        raise ArgumentError(f"{name} have shape {array.shape}, but there are {n} labels")
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ArgumentError(f"{name}: pair {row} has {array[row]}, which is not a number")
    return array
