"""What each variant of a sweep changes: metrics, paired intervals and tests from stored logits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from qt_bert.ablation.effect_metrics import (
    GRADED_METRICS,
    GRADED_TESTED,
    SCORE_METRICS,
    SCORE_TESTED,
    OutputReader,
    Outputs,
    is_defined,
)
from qt_bert.errors import ArgumentError
from qt_bert.evaluation import METRICS
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.comparison import DRAWS, swap_p_values
from qt_bert.evaluation.intervals import (
    RESAMPLES,
    bootstrap_weights,
    interval_or_reason,
    resample,
)
from qt_bert.evaluation.judgements import known
from qt_bert.evaluation.metrics.metric import Estimator
from qt_bert.pairs import Pair

if TYPE_CHECKING:
    from qt_bert.encoder import ModelLabels

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
