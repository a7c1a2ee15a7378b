"""Twins under many variants: one sweep serves both directions, or restoring alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.loop import batch_tokens, sweep
from qt_bert.ablation.patching import second_batches, twin_batches
from qt_bert.ablation.variant import NONE, Variant, with_plain
from qt_bert.encoder.batches import Batch, batches_of
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched.twins import Made
from qt_bert.scoring.outputs import ranking_scores

GIVEN, REPLACED = 0, 1
Batched = Callable[..., Iterator[Batch]]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Scores [1 + variants, pairs, 2] of pairs as they are and with the term replaced.

    A score is the expected grade, or the one logit. Row 0 is the plain model; `rows` says where
    each variant stands, by name. Pairs as they are may not have been run under the variants: NaN.
    """

    rows: dict[str, int]
    scores: FloatArray

    @property
    def gap(self) -> FloatArray:
        """What replacing the term takes [pairs]."""
        return np.asarray(self.scores[0, :, GIVEN] - self.scores[0, :, REPLACED])

    def restoring(self, variants: Sequence[Variant]) -> FloatArray:
        """What patches from the pair as it is give the replaced one [variants, pairs]."""
        return self._under(variants)[..., REPLACED] - self.scores[0, :, REPLACED]

    def breaking(self, variants: Sequence[Variant]) -> FloatArray:
        """What patches from the replaced pair take from the one as it is [variants, pairs]."""
        return np.asarray(self.scores[0, :, GIVEN] - self._under(variants)[..., GIVEN])

    def closing(self, variants: Sequence[Variant]) -> FloatArray:
        """By how much variants that act on both texts make the gap smaller [variants, pairs]."""
        under = self._under(variants)
        return np.asarray(self.gap - (under[..., GIVEN] - under[..., REPLACED]))

    def _under(self, variants: Sequence[Variant]) -> FloatArray:
        return self.scores[[self.rows[variant.name] for variant in variants]]


def run(
    context: ProbeContext, made: Made, variants: Sequence[Variant], *, both: bool = True
) -> Outcomes:
    """The twins under the plain model and `variants`; without `both` only the replaced pairs under
    these, which is all that restoring asks for, and half the work.

    Raises ArgumentError where a variant gives what is no number.
    """
    every = with_plain(variants)
    rows = {variant.name: row for row, variant in enumerate(every)}
    if both:
        whole = _scores(context, made.texts, every, twin_batches)
        return Outcomes(rows, whole.reshape(len(every), -1, 2))
    given = [twin.given for twin in made.twins]
    scores = np.full((len(every), len(given), 2), np.nan)
    scores[..., REPLACED] = _scores(context, made.texts, every, second_batches)[:, 1::2]
    scores[0, :, GIVEN] = _scores(context, given, [NONE], batches_of)[0]
    return Outcomes(rows, scores)


def _scores(
    context: ProbeContext,
    texts: Sequence[EncodedPair],
    variants: Sequence[Variant],
    batched: Batched,
) -> FloatArray:
    """Scores [variants, texts] of the texts that `batched` puts into batches, NaN for others."""
    scorer = context.model
    batches = list(batched(texts, batch_tokens(len(variants)), pad=scorer.pad))
    found = np.full((len(variants), len(texts)), np.nan)
    labels = scorer.checkpoint.settings.labels
    with context.progress(len(variants) * sum(map(len, batches)), "runs") as shown:
        for one in sweep(scorer.encoder, batches, variants, shown=shown):
            _check_finite(one.logits, variants)
            found[:, one.rows] = ranking_scores(one.logits, labels)
    return found


def _check_finite(logits: np.ndarray, variants: Sequence[Variant]) -> None:
    broken = np.argwhere(~np.isfinite(logits).all(axis=(1, 2)))
    if len(broken):
        raise ArgumentError(
            f"variant {variants[broken[0][0]].name} gives no finite logits; try --dtype float32"
        )
