"""What is set back to before fine-tuning: the named heads, others, each alone, layers, everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from qt_bert.ablation.families import MaskOf
from qt_bert.ablation.interventions import EMBEDDINGS, Intervention, Variant
from qt_bert.ablation.weights import Earlier, Reverted, RevertedLayers
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.controls import Contest, contest
from qt_bert.probes.revert.earlier import everything


@dataclass(frozen=True, eq=False)
class Reversions:
    """The variants of the sweep.

    `everything` sets back all but pooler and classifier, `heads` every head. `contest` sets the asked
    heads back beside as many others of their layers, `kept` all heads but them. `alone` and `kept_alone`
    are the same of each head, `layers` of whole layers and, under EMBEDDINGS, of the embeddings.
    """

    everything: Variant
    heads: Variant
    contest: Contest | None = None
    kept: Variant | None = None
    alone: Mapping[Head, Variant] = field(default_factory=dict)
    kept_alone: Mapping[Head, Variant] = field(default_factory=dict)
    layers: Mapping[int, Variant] = field(default_factory=dict)

    @property
    def variants(self) -> list[Variant]:
        """All of them."""
        found = [self.everything, self.heads]
        found += self.contest.variants if self.contest else []
        found += [self.kept] if self.kept else []
        return [*found, *self.alone.values(), *self.kept_alone.values(), *self.layers.values()]


def reversions(
    earlier: Earlier,
    shape: Shape,
    heads: Sequence[Head],
    *,
    draws: int,
    seed: int,
    each: bool = False,
) -> Reversions:
    """The variants for the asked `heads`, of which there may be none.

    `each` adds every head alone, every head kept alone, every layer, and the embeddings.
    """
    mask, every = _mask(earlier), shape.all_heads
    asked = (
        contest("revert:set", heads, shape, matched=draws, free=0, seed=seed, mask=mask)
        if heads
        else None
    )
    whole = Variant("revert:heads", (mask(every),), "revert")
    kept = _all_but(heads, every, "keep:set", mask) if heads else None
    if not each:
        return Reversions(everything(earlier), whole, asked, kept)
    kept_alone = {head: _all_but([head], every, f"keep:{head}", mask) for head in every}
    return Reversions(
        everything(earlier),
        whole,
        asked,
        kept,
        {head: Variant(f"revert:{head}", (mask([head]),), "alone") for head in every},
        {head: one for head, one in kept_alone.items() if one is not None},
        dict(_layers(earlier, shape)),
    )


def _mask(earlier: Earlier) -> MaskOf:
    def mask(heads: Iterable[Head]) -> Intervention:
        return Reverted(tuple(heads), earlier)

    return mask


def _all_but(
    kept: Sequence[Head], every: Sequence[Head], name: str, mask: MaskOf
) -> Variant | None:
    """All heads but `kept` set back; None where that is none."""
    spared = set(kept)
    others = [head for head in every if head not in spared]
    return Variant(name, (mask(others),), "keep") if others else None


def _layers(earlier: Earlier, shape: Shape) -> Iterable[tuple[int, Variant]]:
    embeddings = RevertedLayers((), earlier, embeddings=True)
    yield EMBEDDINGS, Variant("revert:embeddings", (embeddings,), "layers")
    for layer in range(shape.layers):
        yield layer, Variant(f"revert:L{layer}", (RevertedLayers((layer,), earlier),), "layers")
