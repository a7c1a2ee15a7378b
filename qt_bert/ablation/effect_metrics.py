"""What the variants of a sweep gave, read beside the labels, and the metrics made of it.

Metrics of the labels are those of `evaluation.METRICS`. Here stand the four that the registry does
not have: the mean score, two distances from the unmasked pass, and the loss on the label's set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation import METRICS, Judgements
from qt_bert.evaluation.arrays import BoolArray, FloatArray, expectation, sum_by
from qt_bert.evaluation.judgements import index_queries
from qt_bert.evaluation.metrics.metric import Estimator, quotient
from qt_bert.evaluation.metrics.probability import LEAST_PROBABILITY
from qt_bert.pairs import GradeSet, Pair
from qt_bert.scoring.judge import judge_logits

if TYPE_CHECKING:
    from qt_bert.encoder import ModelLabels


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
