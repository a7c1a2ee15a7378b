"""Judging with few labels: a judge beside people's labels, the labels to ask for next, those likely wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.data.pairs import GradeMap, GradeSet, Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import column_cells, joined
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.request import LabelOptions
from qt_bert.scoring import judge
from qt_bert.scoring.judge import DRAWN, JudgedFile, PairScorer
from qt_bert.scoring.tables import Columns, table_beside
from qt_bert.stats import few_labels as stats
from qt_bert.stats.arrays import BoolArray, FloatArray, fractional_ranks
from qt_bert.stats.comparison import refusal
from qt_bert.stats.estimate import LEAST_QUERIES, NORMAL, RESAMPLES, over_queries
from qt_bert.stats.judgements import index_queries, known
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.verdict import POWER_FACTOR
from qt_bert.text import counted

FURTHEST_APART, ROUNDING = 4.0, 1e-6
"""Standard errors between labelled and other pairs from which on labels were not drawn evenly."""


def with_judge(
    files: Sequence[JudgedFile],
    scorers: Sequence[PairScorer],
    path: Path,
    reader: ReaderOptions,
    options: LabelOptions,
    *,
    detect: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any] | None:
    """Metrics of one model, or of the second less the first, by people's labels and a judge's, beside people's
    alone; None without `options.judge`, and nothing is checked without `options.labels`.

    `worth`: people's labels that would alone give as small a standard error, at most all; `needs` and `needs_alone`: those that
    would show a difference `detect` with 80 % power. Raises ArgumentError for labels without DRAWN that were not
    drawn evenly and for a judge without labels, PairFileError for a bad label of the judge.
    """
    if options.labels is None:
        return None
    pairs, n = files[0].everything[0], len(files[0].pairs)
    index, _ = index_queries([pair.query for pair in pairs])
    weights = judge.weights_of(pairs, n, path, options.weights)
    scheme = judge.default_scheme(scorers[0].settings.labels)
    sets = _labels_in(options.judge, pairs, path, reader, scheme)
    if options.judge is not None and not any(sets):
        raise ArgumentError(f"{path}: no pair has a label of --judge {options.judge}")
    grades = _means(sets)
    people, rest = np.arange(len(pairs)) < n, ~np.isin(index, index[:n])
    both, others = people & np.isfinite(grades), np.flatnonzero(rest & np.isfinite(grades))
    few, n_rest = np.flatnonzero(both), len(np.unique(index[others]))
    whole = few[~np.isin(index[few], index[~both])]
    rows, by_judge = np.concatenate([few, few, others]), [*few, *others]
    if pairs[0].grades is None:  # numbers: the judge's grades are numbers, too
        labels_of = [replace(pairs[r], label=str(grades[r])) for r in by_judge]
    else:
        labels_of = [replace(pairs[r], grades=sets[r]) for r in by_judge]
    graded = [pairs[row] for row in few] + labels_of
    parts = []
    for scorer, file in zip(scorers, files, strict=True):
        (_, logits), labels = file.everything, scorer.settings.labels
        if not any(DRAWN in pair.extra for pair in pairs):
            outputs = judge.read_outputs(logits, labels, file.calibration)
            signs = [outputs.ranking_score, _apart(outputs, grades - labels.levels)]
            if outputs.probabilities is not None:
                signs.append(outputs.probabilities.max(axis=1))
            _check_even(signs, people, rest, index.tolist(), path)
        if options.judge is not None:
            part = judge.judge_logits(logits[rows], graded, labels, file.calibration)
            parts.append(part if weights is None else judge.weigh(part, weights[rows]))
    if options.judge is None:
        return None

    def measured(name: str) -> dict[str, Any]:
        metric = METRICS[name]
        chosen = np.flatnonzero(np.isin(few, whole if metric.per_query else few))
        labels, queries = len(chosen), len(np.unique(index[few[chosen]]))
        reason = refusal(metric, parts[0], parts[-1])
        if reason is None and min(queries, n_rest) < LEAST_QUERIES:
            each = f"{queries:,} queries have labels of both, {n_rest:,} of the judge alone"
            reason = f"{each}; {LEAST_QUERIES} are needed"
        facts: dict[str, Any] = {"labels": labels, "n_queries": queries, "value": None}
        facts["reason"] = reason
        if reason is not None:
            return facts
        at = chosen, len(few) + chosen, np.arange(2 * len(few), len(parts[0]))
        by_people, by_judge, alone = ([part.subset(kept) for part in parts] for kept in at)
        human, by_rest = stats.estimate_of(by_people, name), stats.value_and_error(alone, name)
        estimate = stats.prediction_powered(
            human, stats.estimate_of(by_judge, name), by_rest, n_rest
        )
        ends, human_ends = (e.interval(resamples, seed) for e in (estimate, human))
        if ends is None or human_ends is None or ends[0] == ends[1]:
            return facts | {"reason": metric.undefined.en}
        error, human_error = map(stats.standard_error, (estimate, human))
        worth = min(ceil(labels * (human_error / error) ** 2), labels + len(alone[0]))
        facts |= {"value": estimate.value, "ci_low": ends[0], "ci_high": ends[1]}
        facts["people"] = {"value": human.value, "ci_low": human_ends[0], "ci_high": human_ends[1]}
        facts |= {"judge": by_rest[0], "worth": worth}
        if detect is not None:
            target, reach = detect / sqrt(POWER_FACTOR), estimate.reach
            reached = target**2 - reach**2
            more = ((NORMAL * error) ** 2 - reach**2) / reached if target > reach else None
            facts["needs"] = None if more is None else ceil(labels * more)
            facts["needs_alone"] = ceil(labels * (NORMAL * human_error / target) ** 2)
        return facts

    counts = {"labels": len(few), "n_queries": len(np.unique(index[few]))}
    counts |= {"judged_pairs": len(others), "judged_queries": n_rest}
    metrics = {name: measured(name) for name in stats.ESTIMATED}
    return {"judge": options.judge, **counts, "metrics": metrics}


def _apart(outputs: judge.Outputs, grades: FloatArray) -> FloatArray:
    """How far the model is from the judge's grades [n]; a score, which has no scale, by the ranks as shares."""
    if outputs.expected is not None:
        return np.asarray(np.abs(outputs.expected - grades))
    apart, seen = np.full(len(grades), np.nan), np.isfinite(grades)
    ranks = (fractional_ranks(values[seen]) for values in (outputs.ranking_score, grades))
    apart[seen] = np.abs(np.subtract(*ranks))
    return apart


def _check_even(
    signs: Sequence[FloatArray], people: BoolArray, rest: BoolArray, queries: list[int], path: Path
) -> None:
    """Raise ArgumentError where a model's scores, their distance from the judge's grades or top probabilities
    differ between the pairs that people labelled and those of other queries: such labels were picked."""
    for values in signs:
        a, b = (over_queries(np.where(rows, values, np.nan), queries) for rows in (people, rest))
        if min(a.n_queries, b.n_queries) < LEAST_QUERIES:
            continue
        error = np.hypot(*(np.std(e.values) / np.sqrt(e.n_queries) for e in (a, b)))
        if abs(a.value - b.value) > FURTHEST_APART * error + ROUNDING:
            raise ArgumentError(
                f"{path}: labels were not drawn evenly: the model's outputs or their distance from the judge are "
                f"{a.value:.3g} where people labelled, {b.value:.3g} elsewhere; draw by qt-bert agree --next"
            )


def _means(sets: Sequence[GradeSet | None]) -> FloatArray:
    return np.array([np.nan if grades is None else np.mean(grades) for grades in sets])


def _labels_in(
    column: str | None, pairs: Sequence[Pair], path: Path, reader: ReaderOptions, default: GradeMap
) -> list[GradeSet | None]:
    """The labels in a column, which may be FILE:COLUMN, read by `--grades` or the `default`; none without a column.
    Raises ArgumentError where it is missing, PairFileError for a bad label."""
    if column is None:
        return [None] * len(pairs)
    scheme = GradeMap.parse(reader.grades) if reader.grades else default
    sets: list[GradeSet | None] = []
    cells = column_cells(map(joined([column], reader), pairs), column, path)
    bad: list[str] = []
    for pair, cell in zip(pairs, cells, strict=True):
        try:
            sets.append(scheme.grades_of(cell) if cell else None)
        except ValueError as error:
            bad.append(f"{path}, line {pair.line}: {column}: {error}")
    if bad:
        raise PairFileError(
            f"{bad[0]}; so in {counted(len(bad), 'row')}; leave a cell empty where there is no label"
        )
    return sets


def draw_next(
    path: Path, raters: Sequence[str], reader: ReaderOptions, n: int, *, seed: int = 0
) -> tuple[dict[str, int], Columns]:
    """Draw whole queries, about `n` pairs, for people to label, likelier where a label may move QWK far.

    `raters` are the columns of people, a judge, and perhaps of a model's grades. Returns counts, and a table of
    all pairs, those to label first, in DRAWN the chance that a query is labelled by now: earlier labels count as
    drawn by their DRAWN, or evenly. Raises ArgumentError for other raters or a bad `n`, PairFileError for a bad
    label.
    """
    pairs = list(reader.open(path))
    index, n_queries = index_queries([pair.query for pair in pairs])
    labels = (_labels_in(rater, pairs, path, reader, GradeMap.identity()) for rater in raters)
    people, *others = map(_means, labels)
    labelled = np.isin(np.arange(n_queries), index[np.isfinite(people)])
    if not 0 < n <= (~labelled[index]).sum() or len(others) not in (1, 2):
        raise ArgumentError(
            f"--next {n}: name people, a judge and perhaps a model's grades as --raters, and at most as many "
            f"pairs as have no label ({(~labelled[index]).sum():,})"
        )
    if not np.isfinite(others[0]).any():
        raise ArgumentError(
            f"--next: no pair has a label of {raters[1]}; let the judge label first"
        )
    sizes = np.bincount(index)
    doubt = np.bincount(index, stats.doubts(people, *others)) / sizes
    drawn, chance = stats.draw_queries(doubt, sizes, ~labelled, n, seed)
    turn = np.full(n_queries, n_queries)
    turn[drawn] = np.arange(len(drawn))
    earlier = np.full(n_queries, labelled.mean())
    if any(DRAWN in pair.extra for pair in pairs):
        earlier = judge.numbers_of(pairs, index, path, DRAWN)
    chances = (1 - (1 - earlier) * (1 - chance))[index].tolist()
    rows = np.argsort(turn[index], kind="stable").tolist()
    counts = {"queries": len(drawn), "pairs": int(sizes[drawn].sum()), "rows": len(pairs)}
    kept = ({name: p.extra[name] for name in p.extra if name != DRAWN} for p in pairs)
    pairs = [replace(p, extra=extra) for p, extra in zip(pairs, kept, strict=True)]
    return counts, table_beside(pairs, {DRAWN: chances}, rows, path, reader)


def suspects(
    judged: JudgedFile,
    scorer: PairScorer,
    path: Path,
    reader: ReaderOptions,
    judge_column: str | None,
) -> Columns:
    """A table of the pairs whose labels are likely wrong (`suspicion`), worst first, those that the judge
    confirms last. Raises ArgumentError without levels."""
    if (reason := METRICS["brier"].refusal(judged.judgements)) is not None:
        raise ArgumentError(f"--suspects: {reason}")
    judgements, pairs, rows = judged.judgements, judged.pairs, np.arange(len(judged.pairs))
    table, truth = known(judgements.level_probabilities), known(judgements.truth)
    likely, margin = stats.suspicion(table, truth)
    scheme, levels = judge.default_scheme(scorer.settings.labels), judgements.levels
    sets = _labels_in(judge_column, pairs, path, reader, scheme)
    confirmed = [pair.grades == grades for pair, grades in zip(pairs, sets, strict=True)]
    shown = [row for row in np.lexsort((-margin, np.array(confirmed))) if margin[row] > 0]
    added: dict[str, list[Any]] = {"line": [pair.line for pair in pairs]}
    added |= {"p_label": table[rows, truth].tolist(), "likely": [levels[k] for k in likely]}
    added["p_likely"] = table[rows, likely].tolist()
    return table_beside(pairs, added, shown, path, reader)
