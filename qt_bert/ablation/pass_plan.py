"""What all batches of a sweep share: which layer differs for which variant, and which rows go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.ablation.change import EMBEDDINGS, Change, OutputEdit
from qt_bert.ablation.reduction import Reduction, check_reductions
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.forward import Encoder
from qt_bert.encoder.heads import Shape, checked_heads
from qt_bert.errors import ArgumentError

PLAIN = Change()


@dataclass(frozen=True, eq=False)
class PassPlan:
    """The variants of a sweep in the terms of the layers.

    Raises ArgumentError, when it is made, for reductions and variants that the model, or each other,
    do not allow.
    """

    encoder: Encoder
    entering: list[OutputEdit | None]  # [variant], of what the embeddings give
    changes: list[list[Change]]  # [variant][layer]
    horizons: list[int]  # the highest layer in which a variant's tokens mix, −1 for none
    reductions: dict[int, list[tuple[Reduction, int]]]  # layer → (reduction, its place in `layers`)
    full_output: int  # the highest layer whose output a reduction wants in full, −1 for none
    every_row: set[int]  # layers in which a reduction wants attention or contexts of all rows
    attention: set[int]  # layers in which a reduction wants attention

    @classmethod
    def of(
        cls, encoder: Encoder, variants: Sequence[Variant], reductions: Sequence[Reduction]
    ) -> PassPlan:
        layers = range(len(encoder.layers))
        check_reductions(reductions, len(layers))
        shape = Shape(len(layers), encoder.layers[0].heads)
        for variant in variants:
            checked_heads(variant.heads, shape)
        entering = [_of_embeddings(variant) for variant in variants]
        changes = [_in_order(variant, len(layers)) for variant in variants]
        _check_skipped(variants, changes, reductions)
        mixing = [[n for n in layers if one[n].mixes(encoder.layers[n].heads)] for one in changes]
        wanted: dict[int, list[tuple[Reduction, int]]] = {}
        for reduction in reductions:
            for place, layer in enumerate(reduction.layers):
                wanted.setdefault(layer, []).append((reduction, place))
        pairs = [(layer, one) for layer, ones in wanted.items() for one, _ in ones]
        # Attention needs every token's key, so the output of the layer below, also for one row.
        full = [n - 1 for n, one in pairs if one.of != "hidden"]
        full += [n for n, one in pairs if one.of == "hidden" and not one.first_row]
        every_row = {n for n, one in pairs if one.of != "hidden" and not one.first_row}
        attention = {n for n, one in pairs if one.of == "attention"}
        horizons = [max(one, default=-1) for one in mixing]
        highest = max(full, default=-1)
        return cls(encoder, entering, changes, horizons, wanted, highest, every_row, attention)

    def goes_on_in_full(self, layer: int, variants: Sequence[int]) -> bool:
        """Whether all rows of this layer's output are needed for one of the variants."""
        return layer < max(self.full_output + 1, *(self.horizons[v] for v in variants))


def _of_embeddings(variant: Variant) -> OutputEdit | None:
    change = variant.changes.get(EMBEDDINGS, PLAIN)
    if change.inside != PLAIN:
        raise ArgumentError(
            f"variant {variant.name!r} changes more of the embeddings than what they give"
        )
    return change.output


def _in_order(variant: Variant, layers: int) -> list[Change]:
    outside = [layer for layer in variant.changes if not EMBEDDINGS <= layer < layers]
    if outside:
        raise ArgumentError(
            f"variant {variant.name!r} changes layer {outside[0]}; the model has layers 0 to "
            f"{layers - 1}"
        )
    return [variant.changes.get(layer, PLAIN) for layer in range(layers)]


def _check_skipped(
    variants: Sequence[Variant], changes: Sequence[list[Change]], reductions: Sequence[Reduction]
) -> None:
    seen = {layer: one for one in reductions if one.of != "hidden" for layer in one.layers}
    for variant, own in zip(variants, changes, strict=True):
        skipped = [layer for layer, change in enumerate(own) if change.skipped]
        if len(skipped) == len(own):
            raise ArgumentError(
                f"variant {variant.name!r} leaves out every layer; keep at least one"
            )
        for layer in skipped:
            if layer in seen:
                raise ArgumentError(
                    f"reduction {seen[layer].name!r} asks for the {seen[layer].of} of layer {layer}, "
                    f"which variant {variant.name!r} leaves out"
                )
