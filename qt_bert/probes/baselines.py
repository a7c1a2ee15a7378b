"""Is the cross-encoder better than what it replaced? (`heads_of_query_title_bert`, 1, 2.2 and 2.4)

No model runs here: the table made by `experiments/baselines` holds the predictions of nine models,
trained on the same pairs, for every validation pair. Each was trained once, so that intervals cover the
sample of pairs and not the training run: there are measurements, and no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.data.pairs import GRADES, Pair
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Context, Result, estimate_bars
from qt_bert.probes.matching_cells import OTHER, OWN
from qt_bert.results.baselines import (
    BERT_LSTM,
    CHARACTERS,
    CROSS_ENCODER,
    LEXICAL,
    LSTM,
    LSTM_WORDS,
    NO_PAIRS,
    TWO_TOWER,
    WORDS,
    Baselines,
    BaselinesRecord,
    MatchingOutputs,
    digest_of,
    labels_of,
    read_baselines,
)
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.stats.estimate import Estimate, from_leave_one_out, over_queries, paired, rho

FLOOR = 1e-6
"""Added to mean weights, so that tiny weights give no ratio of noise."""


def measure(context: Context) -> Result:
    """ρ of every model and the article's differences, on validation.

    Raises ArgumentError for a table of other pairs or labels, RunFolderError for a damaged one.
    """
    stored = table(context)
    if stored is None:
        return Result(nothing="no_table")
    record, queries = stored.record, stored.queries.tolist()
    # A label that allows several grades counts as their mean, as in `stats`.
    grades = stored.labels @ np.array(GRADES) / stored.labels.sum(axis=1)
    rhos = {
        row.name: rho(stored.of(row.name) @ np.array(GRADES, float), grades, queries)
        for row in record.rows
    }
    lstm = better_lstm(record)
    covered = coverage(context.validation)
    best, middle = (
        over_queries(covered[rows], stored.queries[rows].tolist())
        for rows in (_labelled(stored.labels, {5}), _labelled(stored.labels, {2, 3, 4}))
    )
    best_paired, middle_paired = paired(best, middle)
    others = [row.name for row in record.rows if row.architecture != CROSS_ENCODER]
    second = max(others, key=lambda name: np.nan_to_num(rhos[name].value, nan=-1.0))
    return Result(
        measurements={
            "over_lstm": rhos[CROSS_ENCODER] - rhos[lstm],
            "short_over_lstm": rhos[CHARACTERS] - rhos[lstm],
            "lstm_over_lexical": rhos[lstm] - rhos[LEXICAL],
            "over_two_tower": rhos[CROSS_ENCODER] - rhos[TWO_TOWER],
            "bert_lstm_below": rhos[BERT_LSTM] - rhos[CROSS_ENCODER],
            "words_of_bert": rhos[WORDS] - rhos[CHARACTERS],
            "words_of_lstm": rhos[LSTM_WORDS] - rhos[LSTM],
            "coverage_of_the_best": best_paired - middle_paired,
            "matching_of_pairs": matching_of_pairs(stored),
        },
        figures=[estimate_bars(context, "spearman", [*rhos], {"rho": [*rhos.values()]}, digits=3)],
        facts={
            "lstm": lstm,
            "second": second,
            "of_second": rhos[second].value,
            "of_cross_encoder": rhos[CROSS_ENCODER].value,
            "covered_at_5": best.value,
            "covered_at_2_to_4": middle.value,
        },
        settings={"recipe": record.recipe, "lstm": lstm},
    )


def table(context: Context) -> Baselines | None:
    """The table of the run's validation pairs; None without `--baseline-table`. Raises as `measure`."""
    folder, pairs = context.request.baseline_table, context.validation
    if folder is None:
        return None
    stored = read_baselines(folder)
    if digest_of((pair.query, pair.title) for pair in pairs) != stored.record.digest:
        measured = stored.record.pairs
        raise ArgumentError(
            f"--baseline-table {folder}: measured on the {measured.n_pairs} pairs of "
            f"{measured.name}, not on these {len(pairs)}; make one with experiments/baselines"
        )
    # A model of other levels reads other labels from the same file: the table's labels count then.
    if context.model.checkpoint.settings.labels.exact and not np.array_equal(
        labels_of(pair.grades for pair in pairs), stored.labels
    ):
        raise ArgumentError(
            f"--baseline-table {folder}: the labels of the pairs have changed since; make a new "
            "table with experiments/baselines"
        )
    return stored


def better_lstm(record: BaselinesRecord) -> str:
    """The LSTM matcher with the higher ρ on discovery."""
    rhos = {name: record.row(name).discovery for name in (LSTM, LSTM_WORDS)}
    return max(rhos, key=lambda name: -1.0 if (value := rhos[name]) is None else value)


def coverage(pairs: Sequence[Pair]) -> FloatArray:
    """The share of a query's distinct characters that its title holds [pairs]; NaN without any."""
    shares = []
    for pair in pairs:
        query = {character for character in pair.query if not character.isspace()}
        shares.append(len(query & set(pair.title)) / len(query) if query else np.nan)
    return np.array(shares)


def _labelled(labels: BoolArray, grades: set[int]) -> BoolArray:
    """The pairs whose label allows only `grades` [pairs]."""
    within = np.array([grade in grades for grade in GRADES])
    return np.asarray(labels[:, within].any(axis=1) & ~labels[:, ~within].any(axis=1))


def matching_of_pairs(stored: Baselines) -> Estimate | None:
    """Log lift of the best matching head before fine-tuning, with the pair objective less without it.

    The lift: the mean attention to the own character over that to others, beside the same with replaced
    queries. Both models were pretrained on the same texts. None where either has no head.
    """
    with_pairs, without = (stored.matching.get(name) for name in (CHARACTERS, NO_PAIRS))
    if with_pairs is None or without is None:
        return None
    return _log_lift(with_pairs) - _log_lift(without)


def _log_lift(head: MatchingOutputs) -> Estimate:
    """A head's log lift over all queries."""
    totals = []
    for sums in (head.original, head.replaced, head.counts):
        total = sums.sum(axis=0)
        totals.append(np.vstack([total, total - sums]))
    original, replaced, counts = totals
    lift = np.zeros(len(counts))
    for sign, sums in ((1, original), (-1, replaced)):
        means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0) + FLOOR
        lift += sign * (np.log(means[:, OWN]) - np.log(means[:, OTHER]))
    return from_leave_one_out(float(lift[0]), lift[1:], range(len(lift) - 1))
