"""What each variant of a sweep changes: metrics, paired intervals, tests, and their table."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write
from qt_bert.progress import Progress, silent
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.arrays import BoolArray, FloatArray, expectation, sum_by
from qt_bert.stats.comparison import DRAWS, swap_p_values
from qt_bert.stats.intervals import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.judgements import Judgements, index_queries, known
from qt_bert.stats.metrics import LEAST_PROBABILITY, METRICS, Estimator, quotient
from qt_bert.stats.tests import q_values

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels


# What the variants of a sweep gave, read beside the labels, and the metrics made of it.
#
# Metrics of the labels are those of `evaluation.METRICS`. Here stand the four that the registry
# does
# not have: the mean score, two distances from the unmasked pass, and the loss on the label's set.


@dataclass(frozen=True, eq=False)
class Outputs:
    """What one variant gave for P pairs.

    `score` [P] is the expected grade (or level, as `score` writes it), or the one logit.
    `log_p` [P, K] are log-probabilities, None for one logit; `log_label` [P] is log Σ p over the
    label's set, and `judgements` the registry's view: None where pairs have no labels.
    """

    score: FloatArray
    log_p: FloatArray | None
    log_label: FloatArray | None
    judgements: Judgements | None


Quantity: TypeAlias = Callable[[Outputs, Outputs], FloatArray | None]
"""Outputs of a variant and of the unmasked pass to a number for each pair [P]."""


def expected_grade(one: Outputs, unmasked: Outputs) -> FloatArray:
    """The score itself: expected grade, or the one logit."""
    return one.score


def changed_grades(one: Outputs, unmasked: Outputs) -> FloatArray | None:
    """1 where another logit is the likeliest than in the unmasked pass, ties to the lowest."""
    if one.log_p is None or unmasked.log_p is None:
        return None
    return (one.log_p.argmax(axis=1) != unmasked.log_p.argmax(axis=1)).astype(np.float64)


def kl_divergence(one: Outputs, unmasked: Outputs) -> FloatArray | None:
    """KL(unmasked ‖ variant) over the model's own logits, in nats."""
    if one.log_p is None or unmasked.log_p is None:
        return None
    return expectation(np.exp(unmasked.log_p), unmasked.log_p - one.log_p)


def label_loss(one: Outputs, unmasked: Outputs) -> FloatArray | None:
    """−log Σ p over the label's set, in nats: what fine-tuning minimises."""
    return None if one.log_label is None else -one.log_label


QUANTITIES: dict[str, Quantity] = {
    "expected_grade": expected_grade,
    "changed_grades": changed_grades,
    "kl": kl_divergence,
    "log_loss": label_loss,
}
GRADED_METRICS = ("accuracy", "macro_f1", "qwk", "mae", *QUANTITIES)
SCORE_METRICS = ("pairwise_accuracy", "ndcg_at_3", "ndcg_at_10", "spearman", *QUANTITIES)
GRADED_TESTED = ("accuracy", "qwk")
SCORE_TESTED = ("pairwise_accuracy",)


class OutputReader:
    """Reads logits [P, K] of the same pairs again and again.

    Raises ArgumentError where there is no pair, or some pairs have labels and others none.
    """

    def __init__(self, pairs: Sequence[Pair], labels: ModelLabels) -> None:
        self.pairs = list(pairs)
        self.labels = labels
        self.labelled = _are_labelled(self.pairs)
        self.query_index, self.n_queries = index_queries([pair.query for pair in self.pairs])
        self._meant = meant_logits(self.pairs, labels) if self.labelled else None

    def read(self, logits: np.ndarray, unmasked: Outputs | None = None) -> Outputs:
        """The outputs for logits [P, K].

        With `unmasked`, Spearman's ρ of a one-logit model is set against that pass's score.
        Raises ArgumentError for logits that are not finite, or labels that do not fit the model.
        """
        logits = np.asarray(logits, dtype=np.float64)
        finite = np.isfinite(logits).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ArgumentError(f"pair {row} has the logits {logits[row]}, which are not numbers")
        judged = judge_logits(logits, self.pairs, self.labels) if self.labelled else None
        if self.labels.logits == 1:
            score = logits[:, 0]
            if judged is not None:
                target = score if unmasked is None else unmasked.score
                judged = replace(judged, spearman_target=target)
            return Outputs(score, None, None, judged)
        return self._graded(logits, judged)

    def _graded(self, logits: FloatArray, judged: Judgements | None) -> Outputs:
        from scipy.special import log_softmax

        log_p = np.asarray(log_softmax(logits, axis=1))
        score = expectation(np.exp(log_p), np.array(self.labels.values))
        log_label = None
        if self._meant is not None:
            chosen = np.logaddexp.reduce(np.where(self._meant, log_p, -np.inf), axis=1)
            log_label = np.maximum(chosen, np.log(LEAST_PROBABILITY))
        return Outputs(score, log_p, log_label, judged)

    def estimator(self, metric: str, one: Outputs, unmasked: Outputs) -> Estimator:
        """The metric of `one` under query weights; NaN throughout where it is not defined here.

        Raises ArgumentError for an unknown metric.
        """
        if metric in QUANTITIES:
            quantity = QUANTITIES[metric](one, unmasked)
            return _undefined if quantity is None else self._mean(quantity)
        if metric not in METRICS:
            names = ", ".join([*QUANTITIES, *METRICS])
            raise ArgumentError(f"no metric of effects is called {metric!r}; there are {names}")
        if one.judgements is None or METRICS[metric].refusal(one.judgements):
            return _undefined
        return METRICS[metric].estimator(one.judgements)

    def _mean(self, quantity: FloatArray) -> Estimator:
        columns = (quantity, np.ones(len(quantity)))
        sums = [sum_by(self.query_index, column, self.n_queries) for column in columns]
        table = np.stack(sums, axis=1)
        return lambda weights: quotient(weights @ table)


def is_defined(metric: str, outputs: Outputs) -> bool:
    """Whether a known metric is defined for outputs of this kind."""
    if metric in QUANTITIES:
        return QUANTITIES[metric](outputs, outputs) is not None
    return outputs.judgements is not None and METRICS[metric].refusal(outputs.judgements) is None


def _undefined(weights: FloatArray) -> FloatArray:
    return np.full(len(weights), np.nan)


def _are_labelled(pairs: list[Pair]) -> bool:
    if not pairs:
        raise ArgumentError("no pairs: effects need at least one pair")
    unlabelled = [row for row, pair in enumerate(pairs) if not pair.grades]
    if 0 < len(unlabelled) < len(pairs):
        raise ArgumentError(
            f"{len(unlabelled):,} of {len(pairs):,} pairs have no label (the first stands in line "
            f"{pairs[unlabelled[0]].line}); label every pair, or take the labels away from all"
        )
    return not unlabelled


def meant_logits(pairs: list[Pair], labels: ModelLabels) -> BoolArray:
    """Which logits each pair's label may mean [P, K]."""
    own: Sequence[GradeSet] = labels.grades or [(i + 1,) for i in range(labels.logits)]
    return np.array([[not set(one).isdisjoint(pair.grades or ()) for one in own] for pair in pairs])


# What each variant of a sweep changes: metrics, paired intervals and tests from stored logits.


SWAPS_PER_VARIANT = 40
REFINED = 20
VARIANTS_AT_ONCE = 32
KEPT_WEIGHTS = 10_000_000


class Effects:
    """Effects of V − 1 variants on P pairs of Q queries.

    `logits` [V, P, K] are those of a sweep, row 0 the unmasked pass; they may be a memory map, of
    which one variant is read at a time. `draws` is the least number of swaps a test makes; 0
    leaves the tests out, as 0 `resamples` leaves the intervals out. A metric is one of `metrics`,
    or any other name of `evaluation.METRICS`.

    Raises ArgumentError where shapes do not fit, labels do not fit the model, some pairs have
    labels and others none, or a number of draws is negative.
    """

    def __init__(
        self,
        logits: np.ndarray,
        pairs: Sequence[Pair],
        labels: ModelLabels,
        *,
        resamples: int = RESAMPLES,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> None:
        if logits.ndim != 3 or logits.shape[1:] != (len(pairs), labels.logits) or not len(logits):
            raise ArgumentError(
                f"logits have shape {logits.shape}, not (variants, {len(pairs)} pairs, "
                f"{labels.logits} outputs)"
            )
        if min(resamples, draws) < 0:
            raise ArgumentError(f"{resamples} resamples and {draws} draws: both are 0 or more")
        self.resamples, self.draws, self.seed = resamples, draws, seed
        self._logits = logits
        self._reader = OutputReader(pairs, labels)
        self._unmasked = self._reader.read(logits[0])
        # The unmasked pass and the variant whose metrics a caller is going through.
        self._outputs = lru_cache(maxsize=2)(self._read)
        self._bases: dict[str, float | None] = {}
        self._base_samples: dict[str, FloatArray] = {}
        self._kept_weights: list[FloatArray] | None = None

    @property
    def n_variants(self) -> int:
        """V, the unmasked pass among them."""
        return len(self._logits)

    @property
    def n_pairs(self) -> int:
        """P."""
        return len(self._reader.pairs)

    @property
    def n_queries(self) -> int:
        """Q."""
        return self._reader.n_queries

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that a table of effects shows, as far as they are defined here."""
        names = SCORE_METRICS if self._unmasked.log_p is None else GRADED_METRICS
        return tuple(name for name in names if is_defined(name, self._unmasked))

    @property
    def tested(self) -> tuple[str, ...]:
        """Those of `metrics` that are tested in a table of effects."""
        names = SCORE_TESTED if self._unmasked.log_p is None else GRADED_TESTED
        return tuple(name for name in names if is_defined(name, self._unmasked))

    def base(self, metric: str) -> float | None:
        """The metric of the unmasked pass; None where it is not defined."""
        if metric not in self._bases:
            self._bases[metric] = self.value(0, metric)
        return self._bases[metric]

    def value(self, variant: int, metric: str) -> float | None:
        """The metric of a variant, by its row in `logits`; None where it is not defined."""
        [estimate] = self._estimators(variant, [metric])
        value = float(estimate(np.ones((1, self.n_queries)))[0])
        return None if np.isnan(value) else value

    def change(self, variant: int, metric: str) -> float | None:
        """The absolute change: the variant's value less that of the unmasked pass."""
        value, base = self.value(variant, metric), self.base(metric)
        return None if value is None or base is None else value - base

    def resampled(self, variant: int, metric: str) -> FloatArray:
        """The absolute change under each bootstrap resample of the queries [R].

        The resamples are the same for every variant and metric, so that changes may be averaged
        or subtracted before `interval`. NaN where the metric is not defined.
        """
        return self.resampled_by(variant, [metric])[0]

    def resampled_by(self, variant: int, metrics: Sequence[str]) -> FloatArray:
        """`resampled` for several metrics in one pass over the resamples [metrics, R]."""
        masked = resample(self._estimators(variant, metrics), iter(self._weights()))
        return masked - self.resampled_base(metrics)

    def under(self, weights: FloatArray, variant: int, metric: str) -> FloatArray:
        """The absolute change where each query counts as often as a row of `weights` says [R].

        `weights` [R, Q], in the order in which the pairs first have the queries.
        """
        values = [self._estimators(row, [metric])[0](weights) for row in (variant, 0)]
        return values[0] - values[1]

    def resampled_base(self, metrics: Sequence[str]) -> FloatArray:
        """The metrics of the unmasked pass under the same resamples [metrics, R]."""
        missing = [name for name in metrics if name not in self._base_samples]
        if missing:
            plain = resample(self._estimators(0, missing), iter(self._weights()))
            self._base_samples.update(zip(missing, plain, strict=True))
        return np.stack([self._base_samples[name] for name in metrics])

    def interval(self, samples: FloatArray) -> tuple[float, float] | None:
        """The central 95 % of resampled changes [R].

        None without resamples, for a single query, or where more than 5 % of them are undefined.
        """
        low, high, _ = interval_or_reason(samples, self.n_queries)
        return None if low is None or high is None else (low, high)

    def p_values(self, variants: Sequence[int], metric: str) -> list[float | None]:
        """Two-sided p of each variant's change, tested as one family; None where not defined.

        The masked and the unmasked prediction of whole queries are swapped at random, with the
        same swaps for every variant: `draws` times, or 40 times the size of the family if that is
        more, so that a single true effect can still reach q < 0.05. Variants that no swap comes near
        are tested again with 20 times as many, lest the number of swaps decide later verdicts.
        Raises ArgumentError for a metric that `evaluation.METRICS` does not have.
        """
        if metric not in METRICS:
            raise ArgumentError(f"{metric!r} cannot be tested; choose from {', '.join(METRICS)}")
        if not self.draws or not is_defined(metric, self._unmasked):
            return [None] * len(variants)
        draws = max(self.draws, SWAPS_PER_VARIANT * len(variants))
        found = self._p_values(variants, metric, draws)
        least = np.flatnonzero(found <= 1 / (1 + draws))
        if least.size:
            again = [variants[int(place)] for place in least]
            found[least] = self._p_values(again, metric, REFINED * draws)
        return [None if np.isnan(p) else float(p) for p in found]

    def _p_values(self, variants: Sequence[int], metric: str, draws: int) -> FloatArray:
        unmasked = known(self._unmasked.judgements)
        blocks = []
        for start in range(0, len(variants), VARIANTS_AT_ONCE):
            some = variants[start : start + VARIANTS_AT_ONCE]
            masked = [known(self._outputs(variant).judgements) for variant in some]
            found = swap_p_values(unmasked, masked, [METRICS[metric]], draws=draws, seed=self.seed)
            blocks.append(found[:, 0])
        return np.concatenate(blocks) if blocks else np.empty(0)

    def _estimators(self, variant: int, metrics: Sequence[str]) -> list[Estimator]:
        outputs = self._outputs(variant)
        return [self._reader.estimator(name, outputs, self._unmasked) for name in metrics]

    def _weights(self) -> Iterable[FloatArray]:
        """The resamples; kept where they are few, drawn again each time where they are many."""
        drawn = bootstrap_weights(self.n_queries, self.resamples, self.seed, width=self.n_pairs)
        if self.resamples * self.n_queries > KEPT_WEIGHTS:
            return drawn
        if self._kept_weights is None:
            self._kept_weights = list(drawn)
        return self._kept_weights

    def _read(self, variant: int) -> Outputs:
        if variant == 0:
            return self._unmasked
        try:
            return self._reader.read(self._logits[variant], self._unmasked)
        except ArgumentError as error:
            raise ArgumentError(f"variant {variant}: {error}") from error


# The table of effects of a sweep folder, `effects.csv`: one row a variant and metric.


class EffectRow(NamedTuple):
    """What leaving heads out did to one metric; None where there is no such number.

    `absolute` is value − base, and `ci_low`, `ci_high` are its 95 % interval; `relative` is
    absolute / base, where base > 0. `q` is by Benjamini–Hochberg over the variants of one family.
    """

    name: str
    metric: str
    base: float | None
    value: float | None
    absolute: float | None
    relative: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    n_pairs: int
    n_queries: int


Tests: TypeAlias = dict[tuple[int, str], tuple[float | None, float | None]]
"""p and q of a variant's change of a metric."""

_COUNTS = EffectRow._fields[-2:]


def effect_rows(
    effects: Effects,
    names: Sequence[str],
    families: Sequence[str],
    draws: Sequence[int | None],
    *,
    shown: Progress = silent,
) -> list[EffectRow]:
    """A row for every variant but the unmasked one, and every metric of `effects`.

    `names`, `families` and `draws` say of each variant [V], the unmasked one first, what
    `variants.csv` says. A random draw (`draws` not None) gets no p. `shown` counts variants.
    Raises ArgumentError where there is not one entry for each variant.
    """
    if not len(names) == len(families) == len(draws) == effects.n_variants:
        raise ArgumentError(
            f"{len(names)} names, {len(families)} families and {len(draws)} draws for "
            f"{effects.n_variants} variants"
        )
    tests = _tests(effects, families, draws)
    rows = []
    for variant in range(1, effects.n_variants):
        rows += _rows_of(effects, variant, names[variant], tests)
        shown.advance()
    return rows


def write_effects(path: Path, rows: Sequence[EffectRow]) -> None:
    """Write `rows` as UTF-8 CSV, atomically: numbers with nine significant digits, None empty."""
    with (
        atomic_write(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(EffectRow._fields)
        writer.writerows([_written(cell) for cell in row] for row in rows)


def read_effects(path: Path) -> list[EffectRow]:
    """The rows of a file that `write_effects` wrote.

    Raises RunFolderError, naming the line, where it is not such a file.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle)
            if next(reader, None) != list(EffectRow._fields):
                raise RunFolderError(
                    f"{path}: line 1: the columns are not {', '.join(EffectRow._fields)}"
                )
            return [_read_row(cells, f"{path}: line {reader.line_num}") for cells in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error


def _tests(effects: Effects, families: Sequence[str], draws: Sequence[int | None]) -> Tests:
    members: dict[str, list[int]] = {}
    for variant in range(1, effects.n_variants):
        if draws[variant] is None:
            members.setdefault(families[variant], []).append(variant)
    tests: Tests = {}
    for metric in effects.tested:
        for family in members.values():
            p_values = effects.p_values(family, metric)
            both = zip(p_values, q_values(p_values), strict=True)
            tests |= {(one, metric): pair for one, pair in zip(family, both, strict=True)}
    return tests


def _rows_of(effects: Effects, variant: int, name: str, tests: Tests) -> list[EffectRow]:
    rows = []
    samples = effects.resampled_by(variant, effects.metrics)
    for metric, resampled in zip(effects.metrics, samples, strict=True):
        base, value = effects.base(metric), effects.value(variant, metric)
        change = None if value is None or base is None else value - base
        interval = None if change is None else effects.interval(resampled)
        p, q = tests.get((variant, metric), (None, None))
        rows.append(
            EffectRow(
                name=name,
                metric=metric,
                base=base,
                value=value,
                absolute=change,
                relative=None if change is None or not base or base < 0 else change / base,
                ci_low=interval and interval[0],
                ci_high=interval and interval[1],
                p=p,
                q=q,
                n_pairs=effects.n_pairs,
                n_queries=effects.n_queries,
            )
        )
    return rows


def _written(cell: str | float | None) -> str:
    if cell is None:
        return ""
    return f"{cell:.9g}" if isinstance(cell, float) else str(cell)


def _read_row(cells: list[str], where: str) -> EffectRow:
    if len(cells) != len(EffectRow._fields):
        raise RunFolderError(f"{where}: {len(cells)} cells, not {len(EffectRow._fields)}")
    named = dict(zip(EffectRow._fields, cells, strict=True))
    texts = {key: named.pop(key) for key in ("name", "metric")}
    try:
        counts = {key: int(named.pop(key)) for key in _COUNTS}
        numbers = {key: _number(cell) for key, cell in named.items()}
    except ValueError as error:
        raise RunFolderError(f"{where}: {error}; make the effects anew") from error
    return EffectRow(**texts, **numbers, **counts)  # type: ignore[arg-type]


def _number(cell: str) -> float | None:
    if not cell:
        return None
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(f"{cell!r} is no number")
    return number
