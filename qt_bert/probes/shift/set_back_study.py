"""What setting layers back costs: on validation, and on every file that is held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.data.pairs import Pair
from qt_bert.models.forward import Encoder
from qt_bert.probes.base import Context
from qt_bert.probes.shift.set_back import depths_of, set_back_logits
from qt_bert.probes.streams import for_model
from qt_bert.stats.arrays import FloatArray

QUICK_PAIRS, QUICK_HELD_OUT, QUICK_STEPS = 200, 100, 6
GUARD_PAIRS = 16
METRICS = ("spearman", "accuracy")
VALIDATION = "validation"


@dataclass(frozen=True, eq=False)
class Change:
    """A metric's change against the untouched model, and its resamples [R]."""

    value: float
    samples: FloatArray


@dataclass(frozen=True, eq=False)
class SetBack:
    """One set of pairs under the depths: `effects` holds the untouched model first.

    A model of one logit (`outputs` 1) has its ρ with the scores that it gives untouched.
    """

    name: str
    pairs: Sequence[Pair]
    depths: tuple[int, ...]
    outputs: int
    effects: Effects

    def untouched(self, metric: str) -> float | None:
        """The metric of the tuned model itself; None where these labels define none."""
        return self.effects.base(metric)

    def change(self, depth: int, metric: str) -> Change | None:
        """What the metric changes by with `depth` layers set back."""
        row = 1 + self.depths.index(depth)
        value = self.effects.change(row, metric)
        return None if value is None else Change(value, self.effects.resampled(row, metric))


def set_back_study(base: Encoder, context: Context) -> list[SetBack]:
    """Validation, then each held-out file; samples of them and some depths in quick.

    Nothing for a model that was pruned: the base's layers would bring back what it lost.
    """
    if context.model.checkpoint.kept is not None:
        return []
    wanted = [(VALIDATION, context.validation, QUICK_PAIRS)]
    wanted += [(name, pairs, QUICK_HELD_OUT) for name, pairs in context.held_out]
    return list(_each(base, wanted, context))


def _each(
    base: Encoder, wanted: Sequence[tuple[str, list[Pair], int]], context: Context
) -> Iterator[SetBack]:
    depths = depths_of(len(base.layers), context.choose(QUICK_STEPS, None))
    for name, pairs, most in wanted:
        chosen = for_model(pairs, most, context)
        with context.progress(len(chosen), "pairs") as shown:
            logits = set_back_logits(base, context.model, chosen, depths, shown=shown)
        if name == VALIDATION:
            context.guards["set_back"] = _guard(logits[0], chosen, context)
        labels = context.model.checkpoint.settings.labels
        yield SetBack(
            name,
            chosen,
            depths,
            labels.logits,
            Effects(logits, chosen, labels, resamples=context.resamples, seed=context.seed),
        )


def _guard(untouched: np.ndarray, pairs: Sequence[Pair], context: Context) -> dict[str, float]:
    """How far the model untouched by this pass lies from the plain forward, on the first pairs."""
    some = [(pair.query, pair.title) for pair in pairs[:GUARD_PAIRS]]
    plain = context.model.fresh().logits(some)
    return {"pairs": len(some), "untouched": float(np.abs(untouched[: len(some)] - plain).max())}
