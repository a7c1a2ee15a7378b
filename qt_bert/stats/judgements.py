"""Judgements, the input of every metric: a model's outputs beside labels, of any kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, expectation, ratio
from qt_bert.stats.estimate import group_queries

GradeSet: TypeAlias = tuple[int, ...]

GRADES: GradeSet = (1, 2, 3, 4, 5)
FIVE_GRADES: tuple[GradeSet, ...] = tuple((grade,) for grade in GRADES)
GRADE_CUT = 4
SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of n pairs: `sets` are the distinct ones by mean grade, `index` [n] into them.

    `kind` is `exact` (every set holds one grade), `coarse` (disjoint sets with different means:
    the levels of the file) or `overlapping` (anything else, one set alone, too: there are no levels).
    """

    sets: tuple[GradeSet, ...]
    index: IntArray
    kind: Literal["exact", "coarse", "overlapping"]

    @property
    def ranking_truth(self) -> FloatArray:
        """The target of ranking metrics [n]: grade, level number from 1, or mean grade."""
        if self.kind == "coarse":
            return self.index.astype(np.float64) + 1
        return set_means(self.sets)[self.index]

    @property
    def auc_cut(self) -> float:
        """The least `ranking_truth` that counts as relevant: strictly above the middle."""
        return middle_cut(len(self.sets)) if self.kind == "coarse" else float(GRADE_CUT)


def read_labels(grade_sets: Sequence[Sequence[int] | None]) -> Labels:
    """The labels of n pairs: their distinct sets and kind.

    Raises ArgumentError for no label, and for one that is empty or outside 1..5.
    """
    if len(grade_sets) == 0:
        raise ArgumentError("no graded pair: metrics need at least one pair with a grade")
    normal: dict[GradeSet, GradeSet] = {}
    of_pair: list[GradeSet] = []
    for row, grades in enumerate(grade_sets):
        key = tuple(grades or ())
        if key not in normal:
            normal[key] = checked_set(key, f"the label of pair {row}")
        of_pair.append(normal[key])
    sets = tuple(
        sorted(set(normal.values()), key=lambda grades: (sum(grades) / len(grades), grades))
    )
    place = {grades: number for number, grades in enumerate(sets)}
    index = np.array([place[grades] for grades in of_pair], dtype=np.int64)
    if all(len(grades) == 1 for grades in sets):
        return Labels(sets, index, "exact")
    return Labels(sets, index, "coarse" if are_ordered_levels(sets) else "overlapping")


def checked_set(grades: GradeSet, where: str) -> GradeSet:
    """`grades` sorted and without repeats; ArgumentError naming `where` if it is no set of 1..5."""
    if not grades:
        raise ArgumentError(f"{where} is empty: leave pairs without a grade out before judging")
    if any(grade not in GRADES for grade in grades):
        raise ArgumentError(f"{where} is {grades}, but grades are whole numbers from 1 to 5")
    return tuple(sorted({int(grade) for grade in grades}))


def set_means(sets: Sequence[GradeSet]) -> FloatArray:
    """Mean grade of each set."""
    return np.array([sum(grades) / len(grades) for grades in sets])


def are_ordered_levels(sets: Sequence[GradeSet]) -> bool:
    """Whether the sets, two or more, share no grade and no two have the same mean."""
    disjoint = sum(map(len, sets)) == len(set().union(*sets)) and len(sets) > 1
    return disjoint and all(low < high for low, high in pairwise(sorted(set_means(sets))))


def middle_cut(n_levels: int) -> float:
    """The first level number strictly above the middle of 1..n (4 of five, 3 of four or three)."""
    return float((n_levels + 1) // 2 + 1)


def name_set(grades: GradeSet) -> str:
    """A set of grades as text: `3`, `1-2`, or `1,3`."""
    consecutive = grades == tuple(range(grades[0], grades[-1] + 1))
    if len(grades) > 1 and consecutive:
        return f"{grades[0]}-{grades[-1]}"
    return ",".join(map(str, grades))


Mode: TypeAlias = Literal["grades", "coarse", "levels", "overlapping", "score", "numbers"]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Judgements:
    """n pairs of Q queries, judged at L ordered levels. Made by `judge_*`, never by hand.

    `mode` is the combination of model and labels:

    - `grades`: labels are exact grades, the model has a logit for each of the five;
    - `coarse`: labels are disjoint sets of grades, which are the levels;
    - `levels`: the levels are those of a model with other than five logits;
    - `overlapping`: sets without an order: only accuracy and ranking are defined;
    - `score`: one logit: only the order of titles is defined;
    - `numbers`: labels are numbers, no grades: again only the order.

    In the last three `levels` is empty, and `truth`, `level_probabilities` and
    `label_probability` are None; in the last two `predicted` and `correct` are None as well.
    """

    mode: Mode
    ranking_score: FloatArray
    """Expected grade (or level), or the one logit [n]."""
    ranking_truth: FloatArray
    """Grade, level number from 1, mean grade of the label, or the number, 0 at least [n]."""
    spearman_target: FloatArray
    """What `spearman` compares the score with [n]: `ranking_truth`, or its ranks where two models' are mixed."""
    query_index: IntArray
    """The query of each pair, 0..Q-1 [n]."""
    n_queries: int
    """Q."""
    auc_cut: float
    """The least `ranking_truth` that counts as relevant."""
    query_weights: FloatArray | None = None
    """How much each query counts in every metric [Q]; None: all alike."""
    label_grade: FloatArray | None = None
    """Mean grade of the label [n], in mode `overlapping`, where `ranking_truth` may be a level number."""
    graded: FloatArray | None = None
    """Expected grade, or level from 0, on the model's own scale [n]; None where only the order is judged."""
    unjudged: IntArray | None = None
    """Titles without a label of the same query with a higher score, and with this one [n, 2]."""
    levels: tuple[str, ...] = ()
    """Names of the L levels, lowest first; level i has the numeric value i + 1."""
    truth: IntArray | None = None
    """The label's level, 0-based [n]."""
    level_probabilities: FloatArray | None = None
    """Probability of each level [n, L]; sums to less than 1 where the labels leave a grade out."""
    label_probability: FloatArray | None = None
    """Probability of the label, the sum over its set [n]."""
    predicted: IntArray | None = None
    """The likeliest level, or that by cut-offs, 0-based, ties to the lowest [n]; `overlapping`: the logit."""
    correct: BoolArray | None = None
    """Whether the prediction is the label's level, or lies in the label's set [n]."""

    def __len__(self) -> int:
        return len(self.ranking_score)

    @property
    def weights(self) -> FloatArray:
        """How much each query counts [Q]."""
        return np.ones(self.n_queries) if self.query_weights is None else self.query_weights

    @property
    def expected(self) -> FloatArray:
        """Expected level value [n], from the probabilities of the levels alone."""
        probabilities = known(self.level_probabilities)
        values = np.arange(1.0, len(self.levels) + 1)
        mean = ratio(expectation(probabilities, values), probabilities.sum(axis=1))
        return np.where(np.isnan(mean), known(self.predicted) + 1.0, mean)

    @property
    def eligible(self) -> BoolArray:
        """Queries that have two pairs of different truth, so that their order matters [Q]."""
        lowest = np.full(self.n_queries, np.inf)
        highest = np.full(self.n_queries, -np.inf)
        np.minimum.at(lowest, self.query_index, self.ranking_truth)
        np.maximum.at(highest, self.query_index, self.ranking_truth)
        return np.asarray(highest > lowest)

    def subset(self, rows: npt.ArrayLike) -> Judgements:
        """Some pairs' judgements (a mask or indices [m]). Raises ArgumentError for none."""
        keep = np.arange(len(self))[np.asarray(rows)]
        if keep.size == 0:
            raise ArgumentError("no graded pair is left in this subset")
        queries, query_index = np.unique(self.query_index[keep], return_inverse=True)
        arrays = {
            name: value
            for name, value in vars(replace(self, query_weights=None)).items()
            if isinstance(value, np.ndarray)
        }
        kept: dict[str, Any] = {name: array[keep] for name, array in arrays.items()}
        kept["query_index"] = query_index.astype(np.int64)
        if self.query_weights is not None:
            kept["query_weights"] = self.query_weights[queries]
        return replace(self, **kept, n_queries=len(queries))

    def with_predicted(self, predicted: npt.ArrayLike) -> Judgements:
        """The same with other predicted levels (0-based [n]), as from fitted cut-offs.

        Raises ArgumentError for modes without levels, another length, or an unknown level.
        """
        if self.truth is None:
            raise ArgumentError(f"cut-offs need levels, and there are none in mode {self.mode}")
        levels = np.asarray(predicted)
        if levels.shape != self.truth.shape:
            raise ArgumentError(f"{levels.size} predictions for {len(self)} pairs")
        if not np.isin(levels, np.arange(len(self.levels))).all():
            raise ArgumentError(f"a predicted level lies outside 0..{len(self.levels) - 1}")
        levels = levels.astype(np.int64)
        return replace(self, predicted=levels, correct=levels == self.truth)


def known(value: T | None) -> T:
    """`value`. Raises ArgumentError where the mode of the judgements leaves it None."""
    if value is None:
        raise ArgumentError("these labels and this model have no common levels to judge at")
    return value


def index_queries(queries: Sequence[str]) -> tuple[IntArray, int]:
    """Number the queries by `group_queries`: index [n] and how many there are."""
    keys, index = group_queries(queries)
    return index, len(keys)


def judge_grades(
    probabilities: npt.ArrayLike,
    grade_sets: Sequence[Sequence[int]],
    queries: Sequence[str],
    *,
    model_grades: Sequence[Sequence[int]] = FIVE_GRADES,
    predicted: IntArray | None = None,
) -> Judgements:
    """Judge a model whose K logits are grades against labels that are sets of grades.

    `probabilities` [n, K] are softmaxed logits; `model_grades` are the grades of each logit (by default
    logit i = grade i + 1); `grade_sets` and `queries` have one entry a pair.
    The levels are the model's where every label fits into one logit's grades, else the file's
    where every logit fits into one label; where neither holds the mode is `overlapping`. The prediction is the level
    (of `overlapping` the logit) that is likeliest, or that of the logit `predicted` [n] by cut-offs; a grade that no
    label means counts as the likeliest level.

    Raises ArgumentError for lengths that differ, labels or logits outside 1..5, no pair, NaN.
    """
    labels = read_labels(grade_sets)
    model = tuple(checked_set(tuple(grades), f"logit {i}") for i, grades in enumerate(model_grades))
    table = _checked_probabilities(probabilities, len(labels.index), len(model))
    score = expectation(table, set_means(model))
    ranked = _ranked(score, labels.ranking_truth, labels.auc_cut, queries)
    ranked = replace(ranked, graded=score)
    levels = _common_levels(labels, model)
    if levels is None:
        meets = np.array([[bool(set(a) & set(b)) for b in labels.sets] for a in model])
        predicted = table.argmax(axis=1) if predicted is None else predicted
        correct = meets[predicted, labels.index]
        mean = set_means(labels.sets)[labels.index]
        found = {"predicted": predicted, "correct": correct, "label_grade": mean}
        return replace(ranked, mode="overlapping", **found)
    sets, of_logit, of_label = levels
    level = np.array(of_logit)  # −1 for a logit that belongs to no level
    columns = [table[:, level == place].sum(axis=1) for place in range(len(sets))]
    truth = np.array(of_label, dtype=np.int64)[labels.index]
    at_model = set(sets) == set(model)
    mode: Mode = "grades" if sets == FIVE_GRADES else "levels" if at_model else "coarse"
    judged = _at_levels(ranked, mode, tuple(map(name_set, sets)), np.stack(columns, axis=1), truth)
    if predicted is None:
        return judged
    chosen = level[predicted]
    return judged.with_predicted(np.where(chosen < 0, known(judged.predicted), chosen))


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
    table = _checked_probabilities(probabilities, truth.size, n_levels)
    unfit = np.flatnonzero(~np.isin(truth, np.arange(n_levels)))
    if unfit.size:
        raise ArgumentError(
            f"label {truth[unfit[0]]} of pair {unfit[0]} does not fit the model's {n_levels} "
            f"levels (0..{n_levels - 1}); give the grades of its logits by --model-grades"
        )
    numbers = np.arange(1.0, n_levels + 1)
    names = tuple(map(str, range(n_levels)))
    ranked = _ranked(expectation(table, numbers), truth + 1.0, middle_cut(n_levels), queries)
    ranked = replace(ranked, graded=ranked.ranking_score - 1)
    return _at_levels(ranked, "levels", names, table, truth.astype(np.int64))


def judge_scores(
    scores: npt.ArrayLike,
    grade_sets: Sequence[Sequence[int]],
    queries: Sequence[str],
) -> Judgements:
    """Judge a one-logit model by the order it gives: `scores` [n], any scale.

    Raises ArgumentError for lengths that differ, bad labels, no pair, NaN.
    """
    labels = read_labels(grade_sets)
    score, n = np.asarray(scores, dtype=np.float64), len(labels.index)
    if score.shape != (n,):
        raise ArgumentError(f"scores have shape {score.shape}, but there are {n} labels")
    if not np.isfinite(score).all():
        row = int(np.argmin(np.isfinite(score)))
        raise ArgumentError(f"scores: pair {row} has {score[row]}, which is not a number")
    return _ranked(score, labels.ranking_truth, labels.auc_cut, queries)


def judge_numbers(
    scores: npt.ArrayLike, numbers: npt.ArrayLike, queries: Sequence[str]
) -> Judgements:
    """Judge the order that `scores` [n] give against labels that are `numbers` [n], on any scales.

    If one is below 0, all are shifted so that the lowest is 0. Raises ArgumentError for lengths that
    differ.
    """
    truth = np.asarray(numbers, dtype=np.float64)
    truth = truth - min(truth.min(), 0.0)
    score = np.asarray(scores, dtype=np.float64)
    return replace(_ranked(score, truth, truth.max() + 1, queries), mode="numbers")


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


def _common_levels(
    labels: Labels, model: tuple[GradeSet, ...]
) -> tuple[tuple[GradeSet, ...], list[int], list[int]] | None:
    """The common levels of labels and logits, each logit's and each label's; or None."""
    if are_ordered_levels(model):
        sets = tuple(sorted(model, key=lambda grades: sum(grades) / len(grades)))
        of_label = _owners(labels.sets, sets)
        if of_label is not None and min(of_label) >= 0:
            return sets, [sets.index(grades) for grades in model], of_label
    if labels.kind != "overlapping":
        of_logit = _owners(model, labels.sets)
        if of_logit is not None:
            return labels.sets, of_logit, list(range(len(labels.sets)))
    return None


def _owners(inner: Sequence[GradeSet], outer: Sequence[GradeSet]) -> list[int] | None:
    """For each inner set the outer one that holds it, −1 where none overlaps; None if one spans two."""
    owners = []
    for grades in inner:
        overlapping = [
            number for number, outer_set in enumerate(outer) if set(grades) & set(outer_set)
        ]
        if len(overlapping) > 1 or (overlapping and not set(grades) <= set(outer[overlapping[0]])):
            return None
        owners.append(overlapping[0] if overlapping else -1)
    return owners


def _checked_probabilities(probabilities: npt.ArrayLike, n: int, n_logits: int) -> FloatArray:
    """`probabilities` as float64 [n, n_logits]. Raises ArgumentError for another shape or bad rows."""
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
