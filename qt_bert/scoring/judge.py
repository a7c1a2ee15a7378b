"""Outputs and scores from logits; the judgements of a model on a graded file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from qt_bert.codec import decode, read_result
from qt_bert.data.pairs import GradeMap, Pair, Reason, Reject, number_of
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import cells_of, column_cells
from qt_bert.data.splits import sample_queries
from qt_bert.data.tokenise import Counts, PairTokenizer
from qt_bert.errors import ArgumentError, CheckpointError, PairFileError
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.progress import Progress, note_once, progress, silent
from qt_bert.request import LabelOptions
from qt_bert.stats.arrays import FloatArray, IntArray, expectation
from qt_bert.stats.calibration import (
    Calibration,
    ScoreCalibration,
    apply_cutoffs,
    apply_temperature,
)
from qt_bert.stats.few_labels import chance_weights
from qt_bert.stats.judgements import (
    Judgements,
    index_queries,
    judge_grades,
    judge_levels,
    judge_numbers,
    judge_scores,
)
from qt_bert.stats.metrics import ranked_titles
from qt_bert.text import clip, counted

AnyCalibration = Calibration | ScoreCalibration


class PairScorer(Protocol):
    """What scores pairs: a checkpoint (`scoring.bulk`), an ONNX export or a column (`scoring.column`)."""

    tokenizer: PairTokenizer
    counts: Counts
    left_out: Any

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> ModelSettings: ...
    def describe(self) -> dict[str, Any]: ...
    def identity(self) -> dict[str, str]: ...
    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray: ...
    def refuse(self, pair: Pair) -> Reject | None: ...
    def notes(self) -> Iterator[str]: ...


class TextScorer:
    """A scorer of any texts, which a tokenizer cuts to fit."""

    tokenizer: PairTokenizer
    counts: Counts

    def refuse(self, pair: Pair) -> None:
        """None: it scores every pair."""

    def notes(self) -> Iterator[str]:
        """How many texts were cut, if any."""
        counts = self.counts
        if counts.truncated_titles or counts.truncated_queries:
            yield (
                f"{counts.truncated_titles:,} titles and {counts.truncated_queries:,} queries of "
                f"{counts.pairs:,} pairs were cut at {self.tokenizer.max_length} tokens (--max-length)"
            )


def check_finite(logits: np.ndarray, pairs: Sequence[tuple[str, str]], name: str) -> np.ndarray:
    """`logits`. Raises CheckpointError where one is NaN or infinite, naming the first such pair."""
    broken = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(broken):
        query, title = pairs[broken[0]]
        raise CheckpointError(
            f"{name}: NaN or infinite outputs for {len(broken):,} of {len(pairs):,} pairs, the first "
            f"{clip(query, 60)!r} / {clip(title, 60)!r}; the weights are damaged"
        )
    return logits


def hardly_differ(scores: np.ndarray) -> str | None:
    """A warning where the central nine tenths of at least 20 ranking scores [n] span less than .05 grades,
    or .05 of a single logit (a hundredth of its probability); else None."""
    low, high = np.quantile(scores, [0.05, 0.95])
    if len(scores) < 20 or high - low >= 0.05:
        return None
    return (
        f"scores hardly differ: nine tenths of {len(scores):,} lie between {low:.4g} and {high:.4g}; if "
        "good and bad titles are among them, the model has collapsed and ranks nothing"
    )


@dataclass(frozen=True)
class Outputs:
    """Outputs of n pairs.

    `probabilities` [n, K]; `predicted` [n], names of outputs (the likeliest, ties to the lowest; with
    cut-offs, by the expected grade); `expected` [n] = Σ p × value of the output. Of one logit: `score`,
    and with a calibration the others too, with the columns `p_relevant` and `relevant` in `relevance`.
    """

    labels: ModelLabels
    probabilities: np.ndarray | None
    predicted: list[str] | None
    expected: np.ndarray | None
    score: np.ndarray | None
    relevance: Mapping[str, list[object]] = field(default_factory=dict)

    @property
    def ranking_score(self) -> np.ndarray:
        """The score that ranks titles, float64 [n]: the expected grade or level, or the one logit."""
        return np.asarray(self.expected if self.score is None else self.score, np.float64)

    def columns(self) -> dict[str, list[object]]:
        """Output columns in order: `p_1` … `p_5`, `predicted_grade`, `expected_grade`; for other models
        `p_<level>`, `predicted_level`, `expected_level`; for one logit `score`, then, if it is
        calibrated, `p_relevant`, `relevant` and the columns of its grades."""
        out: dict[str, list[object]] = {}
        if self.score is not None:
            out = {"score": list(self.score.astype(np.float32)), **self.relevance}
        if self.probabilities is None or self.expected is None:
            return out
        kind = "grade" if self.labels.exact else "level"
        out |= {
            f"p_{name}": list(column.astype(np.float32))
            for name, column in zip(self.labels.names, self.probabilities.T, strict=True)
        }
        out[f"predicted_{kind}"] = list(self.predicted or [])
        out[f"expected_{kind}"] = list(self.expected.astype(np.float32))
        return out


def read_outputs(
    logits: np.ndarray, labels: ModelLabels, calibration: AnyCalibration | None = None
) -> Outputs:
    """The outputs of logits [n, K] under `labels`, calibrated where a `calibration` is given."""
    if labels.logits == 1:
        score = logits[:, 0]
        if not isinstance(calibration, ScoreCalibration):
            return Outputs(labels, None, None, None, score)
        values = score.astype(np.float64)
        levels = ModelLabels(len(calibration.grades), calibration.grades)
        table = calibration.probabilities(values)
        predicted = [levels.names[i] for i in apply_cutoffs(values, calibration.cutoffs)]
        relevance: dict[str, list[object]] = {
            "p_relevant": list(calibration.relevance(values).astype(np.float32)),
            "relevant": list((values >= calibration.cut).astype(int).astype(str)),
        }
        expected = expectation(table, np.array(levels.values))
        return Outputs(levels, table, predicted, expected, score, relevance)
    assert not isinstance(calibration, ScoreCalibration)
    probabilities = apply_temperature(logits, calibration.temperature if calibration else 1.0)
    expected = expectation(probabilities, np.array(labels.values))
    cut = _by_cutoffs(probabilities, calibration)
    index = probabilities.argmax(1) if cut is None else cut
    return Outputs(labels, probabilities, [labels.names[i] for i in index], expected, None)


def _by_cutoffs(probabilities: FloatArray, calibration: Calibration | None) -> IntArray | None:
    """The output of each pair [n] by cut-offs, if any, on the scale 1 … K of the outputs, whatever these are worth.
    Raises ArgumentError for cut-offs of another number of outputs."""
    if calibration is None or not calibration.cutoffs:
        return None
    steps = np.arange(1.0, probabilities.shape[1] + 1)
    if len(calibration.cutoffs) + 1 != len(steps):
        raise ArgumentError(
            f"the saved cut-offs separate {len(calibration.cutoffs) + 1} levels, the model has "
            f"{len(steps)}; run qt-bert calibrate again"
        )
    return apply_cutoffs(expectation(probabilities, steps), calibration.cutoffs)


def ranking_scores(logits: np.ndarray, labels: ModelLabels) -> FloatArray:
    """The ranking scores of logits [..., K]: expected grades or levels, or the one logit."""
    flat = read_outputs(logits.reshape(-1, logits.shape[-1]), labels).ranking_score
    return np.asarray(flat.reshape(logits.shape[:-1]))


@dataclass(frozen=True)
class JudgedFile:
    """Graded pairs of a file, a model's logits for them [n, K], and the judgements; `everything`: pairs and logits
    with those without a label, which come last and are rejects unless asked for."""

    pairs: list[Pair]
    logits: np.ndarray
    judgements: Judgements
    rejected: int
    calibration: AnyCalibration | None
    everything: tuple[list[Pair], np.ndarray]


def judge_file(
    path: Path,
    options: ReaderOptions,
    scorer: PairScorer,
    *,
    others: Sequence[PairScorer] = (),
    calibration: AnyCalibration | None = None,
    rejects_path: Path | None = None,
    numbers: bool = True,
    count: LabelOptions = LabelOptions(),
) -> JudgedFile:
    """Read the graded pairs of `path`, score them, and judge them at the levels of model and labels.

    A pair without a score of `scorer` or of the `others`, which are columns of files, is a reject. `count`: see
    `judge_pairs`; with `unjudged` or `labels` pairs without a label are read, too.
    With `numbers`, labels are numbers, judged by their order, where over 1 % are decimals and `options`
    give them no grades. Raises PairFileError where too many rows (`--max-rejects`) have no or a bad
    label, ArgumentError where labels and model do not fit.
    """
    labels = scorer.settings.labels
    if numbers := numbers and options.grades is None:
        rows = options.open(path).rows()
        values = [number_of(row.label) for row in rows if isinstance(row, Pair) and row.label]
        numbers = sum(not v.is_integer() for v in values if isfinite(v)) > 0.01 * len(values)
    pairs, rejected = graded_pairs(
        path,
        options,
        labels,
        rejects_path=rejects_path,
        numbers=numbers,
        unjudged=count.unjudged or count.labels is not None,
        scorers=(scorer, *others),
    )
    if any(each.tokenizer for each in (scorer, *others)):
        options.note_abstract(pairs, path)
    return judge_pairs(pairs, scorer, path, rejected=rejected, calibration=calibration, count=count)


def judge_pairs(
    pairs: Sequence[Pair],
    scorer: PairScorer,
    path: Path,
    *,
    rejected: int = 0,
    calibration: AnyCalibration | None = None,
    count: LabelOptions = LabelOptions(),
) -> JudgedFile:
    """Score the pairs of `path`, and judge those with a label; `rejected` rows were none.

    `count` says from which label on a title is relevant, and how much a query counts (`weights_of`); pairs
    without a label take places among the titles of their query under `unjudged`. Afterwards `scorer.counts` has
    the truncated texts of these pairs alone.
    """
    everything = sorted(pairs, key=lambda pair: pair.label is None)
    graded = [pair for pair in everything if pair.label is not None]
    scorer.counts = Counts()
    with progress(len(pairs), "scoring", "pairs") as shown:
        logits = scorer.logits([(p.query, p.title) for p in everything], shown)
    n, labels = len(graded), scorer.settings.labels
    judgements = judge_logits(logits[:n], graded, labels, calibration)
    if count.unjudged and everything[n:]:
        scores = read_outputs(logits, labels, calibration).ranking_score
        judgements = replace(judgements, unjudged=_unjudged(scores, everything, n))
    if count.relevant is not None:
        # Sets of grades count levels that are no grades from 1.
        lowest = int(judgements.levels[:1] == ("0",))
        value = [
            np.mean(p.grades) - lowest if p.grades else number_of(p.label or "") for p in graded
        ]
        relevant = judgements.ranking_truth[np.array(value) >= count.relevant]
        if not len(relevant):
            raise ArgumentError(f"--relevant {count.relevant:g}: no label of {path} is so high")
        judgements = replace(judgements, auc_cut=float(relevant.min()))
    if (weights := weights_of(graded, n, path, count.weights)) is not None:
        judgements = weigh(judgements, weights)
    if count.weights is not None:
        each = judgements.weights
        note_once(
            f"--weights {count.weights}: {counted(len(each), 'query', 'queries')} tell as much as "
            f"{each.sum() ** 2 / np.square(each).sum():,.0f} of equal weight"
        )
    return JudgedFile(graded, logits[:n], judgements, rejected, calibration, (everything, logits))


def weigh(judgements: Judgements, weights: FloatArray) -> Judgements:
    """The judgements with the weight of each pair's query [n]."""
    of_queries = np.zeros(judgements.n_queries)
    of_queries[judgements.query_index] = weights
    return replace(judgements, query_weights=of_queries)


DRAWN = "drawn_p"
"""The column of the chance with which `agree --next` drew the labels of a query."""


def weights_of(pairs: Sequence[Pair], n: int, path: Path, column: str | None) -> FloatArray | None:
    """The weight of each pair's query [pairs], of which the first n have labels: that in the `column`, over the
    chance with which its labels were drawn (DRAWN, if there) or, for the others, not drawn. None without either.

    Raises PairFileError, with the line, for a label without DRAWN, a bad number, or two in one query.
    """
    if not (drawn := any(DRAWN in pair.extra for pair in pairs)) and column is None:
        return None
    index, n_queries = index_queries([pair.query for pair in pairs])
    weights = np.ones(n_queries) if column is None else numbers_of(pairs, index, path, column)
    if drawn:
        labelled = np.bincount(index[:n], minlength=n_queries) > 0
        weights = weights * chance_weights(numbers_of(pairs, index, path, DRAWN), labelled)
    return weights[index]


def numbers_of(pairs: Sequence[Pair], index: IntArray, path: Path, column: str) -> FloatArray:
    """The number above 0, a chance in DRAWN, that all pairs of a query have in a column [queries]; `index` [pairs]
    numbers these.

    Raises ArgumentError where the column is missing, PairFileError, with the line, for another cell.
    """
    cells, numbers = column_cells(map(cells_of, pairs), column, path), dict[int, float]()
    most, why = sys.float_info.max, ""
    if column == DRAWN:
        most, why = 1.0, " up to 1 (a label that was picked, not drawn, biases every figure)"
    for pair, query, cell in zip(pairs, index.tolist(), cells, strict=True):
        if not 0 < number_of(cell) == numbers.setdefault(query, number_of(cell)) <= most:
            raise PairFileError(
                f"{path}, line {pair.line}: {column} is {cell[:40]!r}; all lines of a query need one number "
                f"above 0{why}"
            )
    return np.array([numbers[query] for query in range(len(numbers))])


def _unjudged(scores: FloatArray, pairs: Sequence[Pair], n: int) -> IntArray:
    """How many pairs after the first n, of the same query, have a higher score than each of these, and the same
    [n, 2]."""
    index, _ = index_queries([pair.query for pair in pairs])
    order, _, tie = ranked_titles(index, scores)
    tied, query = np.bincount(tie[order >= n], minlength=tie[-1] + 1), index[order]
    higher, first = tied.cumsum() - tied, tie[np.searchsorted(query, query)]
    counts = np.empty((len(pairs), 2), dtype=np.int64)
    counts[order] = np.stack([higher[tie] - higher[first], tied[tie]], axis=1)
    return counts[:n]


def graded_pairs(
    path: Path,
    options: ReaderOptions,
    labels: ModelLabels,
    *,
    rejects_path: Path | None = None,
    most: int | None = None,
    numbers: bool = False,
    unjudged: bool = False,
    scorers: Sequence[PairScorer] = (),
) -> tuple[list[Pair], int]:
    """The pairs of `path`, their labels read on the model's scale, and the number of rejects.

    With `numbers` a label is any number, and `grades` are None; with `unjudged` it may be missing. Each of the
    `scorers` has a score of them. At most `most` pairs are read; under `options.limit` about that many are
    drawn, in whole queries.
    """

    def bad_label(pair: Pair) -> Reject | None:
        text, known = pair.label, pair.grades is not None
        if text is None or (isfinite(number_of(text)) if numbers else known):
            return None
        return Reject.of(pair.line, Reason.BAD_GRADE, f"{text}\t{pair.query}\t{pair.title}")

    reader = options.open(
        path,
        default_map=None if numbers else default_scheme(labels),
        grade_required=not unjudged,
        rejects_path=rejects_path,
        refuse=refusal(scorers, bad_label),
    )
    try:
        with closing(iter(reader)) as rows:
            pairs = list(islice(rows, most))
    except PairFileError as error:
        if options.grades is None and (reader.reasons.get("bad grade") or 0) > 0:
            raise PairFileError(
                f"{error}; if the labels are not grades 1-5, give their meaning by --grades, such as "
                "--grades '0=1-2,1=3-4,2=5'"
            ) from error
        raise
    if options.limit is not None:
        pairs = sample_queries(pairs, options.limit)
    return pairs, reader.rejected


def refusal(
    scorers: Sequence[PairScorer], check: Callable[[Pair], Reject | None] = lambda pair: None
) -> Callable[[Pair], Reject | None]:
    """The reject of a pair that the check or one of the `scorers` refuses."""
    every = [check, *(scorer.refuse for scorer in scorers)]
    return lambda pair: next(filter(None, [check(pair) for check in every]), None)


def judge_logits(
    logits: np.ndarray,
    pairs: list[Pair],
    labels: ModelLabels,
    calibration: AnyCalibration | None = None,
) -> Judgements:
    """Judgements of logits [n, K] for pairs with `grades` (levels count from 1) or, where none has any,
    with numbers as labels. Raises ArgumentError where labels, or saved cut-offs, do not fit the model.
    """
    sets = [pair.grades or () for pair in pairs]
    queries = [pair.query for pair in pairs]
    scores = logits[:, 0].astype(np.float64)
    if pairs and all(pair.grades is None and pair.label for pair in pairs):
        ranked = read_outputs(logits, labels, calibration).ranking_score
        return judge_numbers(ranked, [number_of(pair.label or "") for pair in pairs], queries)
    if isinstance(calibration, ScoreCalibration):
        grades, levels = calibration.grades, apply_cutoffs(scores, calibration.cutoffs)
        table = calibration.probabilities(scores)
        judged = judge_grades(table, sets, queries, model_grades=grades, predicted=levels)
        return replace(judged, ranking_score=scores)
    if labels.logits == 1:
        return judge_scores(scores, sets, queries)
    probabilities = apply_temperature(logits, calibration.temperature if calibration else 1.0)
    cut = _by_cutoffs(probabilities, calibration)
    if labels.grades is None:
        judged = judge_levels(probabilities, _levels_of(sets, labels), queries)
        return judged if cut is None else judged.with_predicted(cut)
    grades = labels.grades
    judged = judge_grades(probabilities, sets, queries, model_grades=grades, predicted=cut)
    if cut is not None and judged.truth is not None and len(judged.levels) != labels.logits:
        raise ArgumentError(
            f"the saved cut-offs separate {labels.logits} grades, these pairs are judged at "
            f"{len(judged.levels)} levels; leave --calibrated out"
        )
    return judged


def _levels_of(sets: list[tuple[int, ...]], labels: ModelLabels) -> list[int]:
    """The 0-based level of each label. Raises ArgumentError for a label that means several."""
    if coarse := next((s for s in sets if len(s) > 1), None):
        raise ArgumentError(
            f"--grades: a label means the grades {', '.join(map(str, coarse))}, but the model's "
            f"{labels.logits} logits are levels of unknown grade; give the grades of each by "
            "--model-grades"
        )
    return [s[0] - 1 for s in sets]


def default_scheme(labels: ModelLabels) -> GradeMap:
    """How labels are read by default: as grades, or as the levels of a model without grades."""
    return GradeMap.levels(labels.logits) if labels.levels else GradeMap.identity()


def requested_calibration(
    scorer: PairScorer, requested: bool | str | Path
) -> AnyCalibration | None:
    """The calibration in the file `requested` (of `qt-bert calibrate --out`), that of the model (True), or
    None (False). Raises ArgumentError and RunFolderError where it is missing or of another model.
    """
    if not requested:
        return None
    if isinstance(requested, bool):
        stored, where = scorer.settings.calibration, "the stored calibration"
        if stored is None:
            raise ArgumentError(
                f"--calibrated: {scorer.name} has no calibration; make one with `qt-bert calibrate --save`, or of a "
                "column with --out FILE, then evaluate --calibration FILE"
            )
    else:
        file, where = read_result(dict[str, Any], Path(requested)), str(requested)
        stored, mine = file.get("calibration"), scorer.describe()
        model = decode(dict[str, Any], file.get("model"), f"{requested}: model")
        same = model.get("sha256", "") in (mine["sha256"], mine.get("exported"))
        if not (model.get("columns") == mine["columns"] if "columns" in mine else same):
            raise ArgumentError(
                f"--calibration {requested} was fitted to {model.get('name')}, whose weights are not those of "
                f"{scorer.name}; run qt-bert calibrate again"
            )
    kind = ScoreCalibration if scorer.settings.labels.logits == 1 else Calibration
    return decode(kind, stored, f"{where} (run qt-bert calibrate again)")  # type: ignore[no-any-return]
