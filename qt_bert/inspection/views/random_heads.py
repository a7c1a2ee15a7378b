"""Random heads beside those that a visitor leaves out: as many in every layer, replaced alike."""

from __future__ import annotations

from collections.abc import Iterable

from qt_bert.ablation.families import DRAWS, MaskOf, layer_matched
from qt_bert.ablation.variant import Part, Variant
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError
from qt_bert.inspection.inspected import Inspected


def mask_of(inspected: Inspected, mode: str) -> MaskOf:
    """How the model does without some heads, one at least, as `mode` says."""

    def mask(heads: Iterable[Head]) -> Part:
        part = inspected.part(heads, mode)
        assert part is not None, "a set of heads to leave out holds one"
        return part

    return mask


def random_heads(
    inspected: Inspected, heads: Iterable[Head], mode: str, seed: int
) -> list[Variant]:
    """Layer-matched sets; none for no heads, or where a layer has too few others to draw from."""
    try:
        return layer_matched(inspected.shape, mask_of(inspected, mode), heads, DRAWS, seed)
    except ArgumentError:
        return []
