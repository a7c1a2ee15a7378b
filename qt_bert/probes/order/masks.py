"""The variants of the study: order heads left out, and what they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qt_bert.ablation.families import MaskOf
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.controls import Contest, contest, zeroed
from qt_bert.stats.arrays import FloatArray

K = 7
"""As many heads as the article left out."""

MEAN_DRAWS = 99
"""Layer-matched sets for the mode `mean`, which stands beside the claim."""

CURVE = (1, 3, 5, 7, 10, 14)


@dataclass(frozen=True)
class Draws:
    """Random sets of each kind: at the claim's own k, and at each other of `sizes`, the curve's k."""

    matched: int
    free: int
    curve: int
    curve_free: int
    sizes: tuple[int, ...] = CURVE


@dataclass(frozen=True)
class Masks:
    """`claim` leaves the k order heads out; `curve` has a contest for each k, the claim's among
    them; `mean` puts their mean head outputs in; `matching` are the variant and heads of term
    matching.
    """

    claim: Contest | None
    curve: Mapping[int, Contest] = field(default_factory=dict)
    mean: Contest | None = None
    matching: Variant | None = None

    @property
    def variants(self) -> list[Variant]:
        """All of them, the plain model first."""
        contests = [*self.curve.values(), *([self.mean] if self.mean else [])]
        found = [NONE, *(variant for one in contests for variant in one.variants)]
        return found + ([self.matching] if self.matching else [])


def masks(
    best: Sequence[Head],
    shape: Shape,
    draws: Draws,
    *,
    seed: int,
    matching: Sequence[Head],
    norms: FloatArray | None = None,
    mean: MaskOf | None = None,
) -> Masks:
    """The study's variants for the order heads `best`, the best first.

    Of fewer heads than a k asks for, all are taken. `norms` adds loudness-matched sets to the claim.
    """
    sizes = sorted({min(k, len(best)) for k in (K, *draws.sizes)} - {0})
    own = min(K, len(best))
    curve = {
        k: contest(
            f"order:k{k}",
            best[:k],
            shape,
            matched=draws.matched if k == own else draws.curve,
            free=draws.free if k == own else draws.curve_free,
            seed=seed,
            norms=norms if k == own else None,
        )
        for k in sizes
    }
    return Masks(
        claim=curve.get(own),
        curve=curve,
        mean=_mean_mode(best[:own], shape, seed, mean) if own and mean else None,
        matching=Variant("matching", (zeroed(matching),), "target") if matching else None,
    )


def _mean_mode(heads: Sequence[Head], shape: Shape, seed: int, mask: MaskOf) -> Contest:
    return contest("order:mean", heads, shape, matched=MEAN_DRAWS, free=0, seed=seed, mask=mask)
