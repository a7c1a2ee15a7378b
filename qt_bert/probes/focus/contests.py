"""The readers' layer with heads of lower layers left out: the matching ones, others, and each alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.families import MaskOf
from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import reference_means
from qt_bert.data.pairs import Pair
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.controls import Contest, contest, zeroed
from qt_bert.probes.focus.cls_row import FOCUS
from qt_bert.probes.focus.passes import rows
from qt_bert.probes.streams import head_norms
from qt_bert.stats.arrays import FloatArray

QUICK_DRAWS, FULL_DRAWS = 99, 999


@dataclass(frozen=True, eq=False)
class Outcome:
    """A contest between the matching heads and others, as the layer of the readers sees it.

    `rows` [queries, variants, heads, quantities]: the plain model's, then those of
    `contest.variants`.
    """

    contest: Contest
    rows: FloatArray

    def change(self, head: int, quantity: int = FOCUS) -> FloatArray:
        """What leaving the target out changes [queries]."""
        return np.asarray(self.rows[:, 1, head, quantity] - self.rows[:, 0, head, quantity])

    def control(self, family: str, head: int, quantity: int = FOCUS) -> FloatArray:
        """What each draw of `family` (`matched`, `loud`) changes [queries, draws]."""
        drawn = [row for row, one in enumerate(self.contest.variants, 1) if one.family == family]
        before = self.rows[:, :1, head, quantity]
        return np.asarray(self.rows[:, drawn, head, quantity] - before)


@dataclass(frozen=True, eq=False)
class Wiring:
    """How much of each head's focus goes with each lower head [queries, sources, heads]."""

    sources: list[Head]
    losses: FloatArray


def contests(
    context: Context, pairs: Sequence[Pair], shape: Shape, matching: Sequence[Head]
) -> dict[str, Contest]:
    """By how heads are left out: `zero`, and under --full `mean`; none without matching heads.

    Under --full the matching heads also meet others that are as loud on `pairs`.
    """
    if not matching:
        return {}
    norms = head_norms(context.model, pairs) if context.full and pairs else None
    masks = {"zero": zeroed} | ({"mean": _mean_mask(context)} if context.full else {})
    return {
        mode: contest(
            "matching",
            matching,
            shape,
            matched=context.choose(QUICK_DRAWS, FULL_DRAWS),
            free=0,
            seed=context.seed,
            norms=norms if mode == "zero" else None,
            mask=mask,
        )
        for mode, mask in masks.items()
    }


def alone(heads: Sequence[Head]) -> list[Variant]:
    """Each of `heads` left out by itself."""
    return [Variant(str(head), (zeroed([head]),), "single") for head in heads]


def guard(context: Context, variants: Sequence[Variant], pairs: Sequence[Pair]) -> None:
    """Stop unless the masks do what they say; their figures go to the result."""
    scorer = context.model
    encoded = scorer.tokenizer.encode([(pair.query, pair.title) for pair in pairs], offsets=False)
    context.guards["left_out"] = check_equivalence(
        scorer.checkpoint, scorer.encoder, variants, encoded, seed=context.seed
    )


def outcome(context: Context, pairs: Sequence[Pair], layer: int, made: Contest) -> Outcome:
    """Run a contest's variants."""
    return Outcome(made, rows(context, pairs, [layer], made.variants)[:, :, 0])


def wiring(context: Context, pairs: Sequence[Pair], layer: int, sources: Sequence[Head]) -> Wiring:
    """Run the model without each of `sources`."""
    focus = rows(context, pairs, [layer], alone(sources))[:, :, 0, :, FOCUS]
    return Wiring(list(sources), focus[:, :1] - focus[:, 1:])


def _mean_mask(context: Context) -> MaskOf:
    means = reference_means(context.model, context.reference_pairs)

    def mask(heads: Iterable[Head]) -> Intervention:
        return HeadMask(tuple(heads), "mean", means)

    return mask
