"""Effects of a sweep's variants: metrics, paired intervals, tests, and their table.

To the metrics of `stats.metrics` it adds four quantities: the mean score, two distances from the
unmasked pass, and the loss on the label's set.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write
from qt_bert.progress import Progress, silent
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.arrays import BoolArray, FloatArray, expectation, sum_by
from qt_bert.stats.comparison import DRAWS, swap_p_values
from qt_bert.stats.estimate import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.judgements import Judgements, index_queries, known
from qt_bert.stats.metrics import LEAST_PROBABILITY, METRICS, Estimator, quotient
from qt_bert.stats.tests import q_values

if TYPE_CHECKING:
    from qt_bert.ablation.interventions import Variant
    from qt_bert.models.card import ModelLabels

QUANTITIES = ("expected_grade", "changed_grades", "kl", "log_loss")
GRADED_METRICS = ("accuracy", "macro_f1", "qwk", "mae", *QUANTITIES)
SCORE_METRICS = ("pairwise_accuracy", "ndcg_at_3", "ndcg_at_10", "spearman", *QUANTITIES)
GRADED_TESTED = ("accuracy", "qwk")
SCORE_TESTED = ("pairwise_accuracy",)
SWAPS_PER_VARIANT = 40
REFINED = 20
VARIANTS_AT_ONCE = 32
KEPT_WEIGHTS = 10_000_000  # resamples × queries


@dataclass(frozen=True, eq=False)
class VariantOutputs:
    """A variant's outputs for P pairs.

    `score` [P] is the expected grade (or level, as `score` writes it), or the one logit.
    `log_p` [P, K] are log-probabilities, None for one logit. `log_label` [P] is log Σ p over the
    label's set; it and `judgements` are None for pairs without labels.
    """

    score: FloatArray
    log_p: FloatArray | None
    log_label: FloatArray | None
    judgements: Judgements | None

    def quantity(self, name: str, clean: VariantOutputs) -> FloatArray | None:
        """One of QUANTITIES for each pair [P]; None where it is not defined.

        `expected_grade` is the score; `changed_grades` 1 where the argmax differs from that of the
        unmasked pass `clean`, ties to the lowest; `kl` is KL(clean ‖ this), in nats; `log_loss` is
        −log Σ p over the label's set, in nats, the loss of fine-tuning.
        """
        if name == "expected_grade":
            return self.score
        if name == "log_loss":
            return None if self.log_label is None else -self.log_label
        if self.log_p is None or clean.log_p is None:
            return None
        if name == "changed_grades":
            return (self.log_p.argmax(axis=1) != clean.log_p.argmax(axis=1)).astype(np.float64)
        return np.asarray((np.exp(clean.log_p) * (clean.log_p - self.log_p)).sum(axis=1))


class OutputReader:
    """Turns logits [P, K] of the same pairs into `VariantOutputs`.

    Raises ArgumentError for no pairs, and where only some pairs have labels.
    """

    def __init__(self, pairs: Sequence[Pair], labels: ModelLabels) -> None:
        self.pairs = list(pairs)
        self.labels = labels
        self.labelled = _are_labelled(self.pairs)
        self.query_index, self.n_queries = index_queries([pair.query for pair in self.pairs])
        self._in_label = logits_in_label(self.pairs, labels) if self.labelled else None

    def read(self, logits: np.ndarray) -> VariantOutputs:
        """The outputs for logits [P, K]. Raises ArgumentError for bad logits or labels."""
        from scipy.special import log_softmax

        logits = np.asarray(logits, dtype=np.float64)
        finite = np.isfinite(logits).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ArgumentError(f"pair {row} has the logits {logits[row]}, which are not numbers")
        judged = judge_logits(logits, self.pairs, self.labels) if self.labelled else None
        if self.labels.logits == 1:
            return VariantOutputs(logits[:, 0], None, None, judged)
        log_p = np.asarray(log_softmax(logits, axis=1))
        score = expectation(np.exp(log_p), np.array(self.labels.values))
        log_label = None
        if self._in_label is not None:
            log_sum = np.logaddexp.reduce(np.where(self._in_label, log_p, -np.inf), axis=1)
            log_label = np.maximum(log_sum, np.log(LEAST_PROBABILITY))
        return VariantOutputs(score, log_p, log_label, judged)

    def estimator(
        self, metric: str, outputs: VariantOutputs, unmasked: VariantOutputs
    ) -> Estimator | None:
        """The metric under query weights, or None."""
        if metric in QUANTITIES:
            quantity = outputs.quantity(metric, unmasked)
            if quantity is None:
                return None
            columns = (quantity, np.ones(len(quantity)))
            table = np.stack([sum_by(self.query_index, c, self.n_queries) for c in columns], axis=1)
            return lambda weights: quotient(weights @ table)
        if outputs.judgements is None or METRICS[metric].refusal(outputs.judgements):
            return None
        return METRICS[metric].estimator(outputs.judgements)


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


def logits_in_label(pairs: list[Pair], labels: ModelLabels) -> BoolArray:
    """Which logits each pair's label may mean [P, K]."""
    sets: Sequence[GradeSet] = labels.grades or [(i + 1,) for i in range(labels.logits)]
    return np.array([[not set(s).isdisjoint(pair.grades or ()) for s in sets] for pair in pairs])


class Effects:
    """Effects of V − 1 variants on P pairs of Q queries.

    `logits` [V, P, K] are those of a sweep, row 0 the unmasked pass; of a memory map one variant is
    read at a time. `draws` is the least number of swaps of a test; 0 omits tests, 0 `resamples`
    intervals. `metrics` are the defined ones of the table of effects, `tested` those tested there;
    methods also take any other name of `stats.metrics`.

    Raises ArgumentError where labels do not fit the model, only some pairs have labels, or a number is
    negative.
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
        if min(resamples, draws) < 0:
            raise ArgumentError(f"{resamples} resamples and {draws} draws: both are 0 or more")
        self.resamples, self.draws, self.seed = resamples, draws, seed
        self._logits = logits
        self._reader = OutputReader(pairs, labels)
        self._unmasked = self._reader.read(logits[0])
        # The unmasked pass and the current variant.
        self._outputs = lru_cache(maxsize=2)(self._read)
        self._bases: dict[str, float | None] = {}
        self._base_samples: dict[str, FloatArray] = {}
        self._kept_weights: list[FloatArray] | None = None
        self.n_pairs, self.n_queries = len(pairs), self._reader.n_queries
        graded = self._unmasked.log_p is not None
        shown = GRADED_METRICS if graded else SCORE_METRICS
        self.metrics = tuple(name for name in shown if self._estimator(0, name))
        tested = GRADED_TESTED if graded else SCORE_TESTED
        self.tested = tuple(name for name in tested if name in self.metrics)

    def base(self, metric: str) -> float | None:
        """The metric of the unmasked pass; None where it is not defined."""
        if metric not in self._bases:
            self._bases[metric] = self.value(0, metric)
        return self._bases[metric]

    def value(self, variant: int, metric: str) -> float | None:
        """The metric of a variant, by its row in `logits`; None where it is not defined."""
        estimate = self._estimator(variant, metric) or _undefined
        value = float(estimate(np.ones((1, self.n_queries)))[0])
        return None if np.isnan(value) else value

    def change(self, variant: int, metric: str) -> float | None:
        """The absolute change: the variant's value minus the unmasked pass's."""
        value, base = self.value(variant, metric), self.base(metric)
        return None if value is None or base is None else value - base

    def resampled_by(self, variant: int, metrics: Sequence[str]) -> FloatArray:
        """The absolute changes under each bootstrap resample of the queries [metrics, R].

        Resamples are shared by variants and metrics, so that changes may be averaged or subtracted
        before `interval`. NaN where the metric is not defined.
        """
        missing = [name for name in metrics if name not in self._base_samples]
        if missing:
            self._base_samples |= zip(missing, self._resample(0, missing), strict=True)
        base = np.stack([self._base_samples[name] for name in metrics])
        return self._resample(variant, metrics) - base

    def interval(self, samples: FloatArray) -> tuple[float, float] | None:
        """The central 95 % of resampled changes [R].

        None without resamples, for a single query, or if more than 5 % of the changes are undefined.
        """
        low, high, _ = interval_or_reason(samples, self.n_queries)
        return None if low is None or high is None else (low, high)

    def p_values(self, variants: Sequence[int], metric: str) -> list[float | None]:
        """Two-sided p of each variant's change, tested as one family; None where not defined.

        Masked and unmasked predictions of whole queries are swapped at random, with the same swaps for
        every variant: `draws` times, or 40 times the size of the family if that is more, so that a
        single true effect can reach q < 0.05. Variants with the least possible p are tested again with
        20 times as many swaps.
        """
        if not self.draws or not self._estimator(0, metric):
            return [None] * len(variants)
        draws = max(self.draws, SWAPS_PER_VARIANT * len(variants))
        p_values = self._p_values(variants, metric, draws)
        least = np.flatnonzero(p_values <= 1 / (1 + draws))
        if least.size:
            again = [variants[int(row)] for row in least]
            p_values[least] = self._p_values(again, metric, REFINED * draws)
        return [None if np.isnan(p) else float(p) for p in p_values]

    def _p_values(self, variants: Sequence[int], metric: str, draws: int) -> FloatArray:
        unmasked = known(self._unmasked.judgements)
        blocks = [np.empty(0)]
        for start in range(0, len(variants), VARIANTS_AT_ONCE):
            block = variants[start : start + VARIANTS_AT_ONCE]
            masked = [known(self._outputs(variant).judgements) for variant in block]
            p = swap_p_values(unmasked, masked, [METRICS[metric]], draws=draws, seed=self.seed)
            blocks.append(p[:, 0])
        return np.concatenate(blocks)

    def _estimator(self, variant: int, metric: str) -> Estimator | None:
        return self._reader.estimator(metric, self._outputs(variant), self._unmasked)

    def _resample(self, variant: int, metrics: Sequence[str]) -> FloatArray:
        estimators = [self._estimator(variant, name) or _undefined for name in metrics]
        return resample(estimators, iter(self._weights()))

    def _weights(self) -> Iterable[FloatArray]:
        """The resamples; few are kept, many drawn again each time."""
        drawn = bootstrap_weights(self.n_queries, self.resamples, self.seed, width=self.n_pairs)
        if self.resamples * self.n_queries > KEPT_WEIGHTS:
            return drawn
        if self._kept_weights is None:
            self._kept_weights = list(drawn)
        return self._kept_weights

    def _read(self, variant: int) -> VariantOutputs:
        if variant == 0:
            return self._unmasked
        try:
            return self._reader.read(self._logits[variant])
        except ArgumentError as error:
            raise ArgumentError(f"variant {variant}: {error}") from error


def _undefined(weights: FloatArray) -> FloatArray:
    return np.full(len(weights), np.nan)


# The table of effects of a sweep folder, `effects.csv`: one row a variant and metric.


class EffectRow(NamedTuple):
    """A variant's effect on a metric; None where a number is not defined.

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


def effect_rows(
    effects: Effects, variants: Sequence[Variant], *, shown: Progress = silent
) -> list[EffectRow]:
    """A row for every variant but the first, the unmasked one, and every metric of `effects`.

    A random draw gets no p. `shown` counts variants.
    """
    families: dict[str, list[int]] = {}
    for number, variant in enumerate(variants[1:], start=1):
        if variant.draw is None:
            families.setdefault(variant.family, []).append(number)
    tests: dict[tuple[int, str], tuple[float | None, float | None]] = {}
    for metric in effects.tested:
        for members in families.values():
            p_values = effects.p_values(members, metric)
            p_and_q = zip(p_values, q_values(p_values), strict=True)
            tests |= {(row, metric): pair for row, pair in zip(members, p_and_q, strict=True)}
    rows = []
    for number, variant in enumerate(variants[1:], start=1):
        samples = effects.resampled_by(number, effects.metrics)
        for metric, resampled in zip(effects.metrics, samples, strict=True):
            base, value = effects.base(metric), effects.value(number, metric)
            change = None if value is None or base is None else value - base
            relative = None if change is None or not base or base < 0 else change / base
            low, high = (None if change is None else effects.interval(resampled)) or (None, None)
            p, q = tests.get((number, metric), (None, None))
            numbers = (base, value, change, relative, low, high, p, q)
            size = (effects.n_pairs, effects.n_queries)
            rows.append(EffectRow(variant.name, metric, *numbers, *size))
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
        for row in rows:
            writer.writerow([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row])


def read_effects(path: Path) -> list[EffectRow]:
    """The rows of a file that `write_effects` wrote. Raises RunFolderError naming the bad line."""
    fields = EffectRow._fields
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle)
            if next(reader, None) != list(fields):
                raise RunFolderError(f"{path}: line 1: the columns are not {', '.join(fields)}")
            rows = []
            for cells in reader:
                where = f"{path}: line {reader.line_num}"
                if len(cells) != len(fields):
                    raise RunFolderError(f"{where}: {len(cells)} cells, not {len(fields)}")
                try:
                    numbers = [*map(_number, cells[2:-2]), *map(int, cells[-2:])]
                    rows.append(EffectRow._make([*cells[:2], *numbers]))
                except ValueError as error:
                    raise RunFolderError(f"{where}: {error}; make the effects anew") from error
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error


def _number(cell: str) -> float | None:
    number = float(cell) if cell else None
    if number is not None and not math.isfinite(number):
        raise ValueError(f"{cell!r} is no number")
    return number
