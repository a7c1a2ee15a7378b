"""Attention maps of one pair: of a layer in full, of all heads in small; kept for the next look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.state import State
from qt_bert.inspection.views.map_parts import PARTS, masks

SMALL = 32
"""Rows and columns of a small map at most; of a longer pair each cell is the largest of several."""
KEPT_BYTES = 16 << 20
MAPS, SMALLS, SUMS = "maps", "small", "sums"


@dataclass(frozen=True, eq=False)
class Overview:
    """All heads of one pair, whole and (if there are heads left out) without these.

    `small` [ways, layers, heads, ≤ SMALL, ≤ SMALL] are maps, float16; `given` [ways, layers, heads,
    PARTS] is the mean over the tokens that look of what they give to those looked at, NaN where a
    part has no tokens.
    """

    small: np.ndarray
    given: np.ndarray


def layer_maps(inspected: Inspected, state: State) -> np.ndarray:
    """The maps of the state's layer [ways, heads, tokens, tokens]: whole, and without the heads."""
    layer, key = state.layer, (*_key(inspected, state), state.layer)

    def made() -> np.ndarray:
        return _run(inspected, state, [Reduction(MAPS, "attention", (layer,), _values)])[MAPS][:, 0]

    return _kept.get((MAPS, *key), made)


def head_maps(inspected: Inspected, state: State) -> tuple[np.ndarray, np.ndarray | None]:
    """One head's map [tokens, tokens]: whole, and without the heads left out, where there are any."""
    ways = layer_maps(inspected, state)[:, state.head].astype(np.float64)
    return ways[0], ways[1] if len(ways) > 1 else None


def overview(inspected: Inspected, state: State) -> Overview:
    """All heads of the state's pair in small."""

    def made() -> Overview:
        layers = tuple(range(inspected.shape.layers))
        rows, columns = (
            torch.from_numpy(one.astype(np.float32))
            for one in masks(inspected.encode(state.query, state.title), list(PARTS.values()))
        )

        def given(view: View) -> torch.Tensor:
            sums = torch.einsum("bhij,pi,pj->bhp", view.values.float(), rows, columns)
            return torch.where(columns.sum(1) > 0, sums / rows.sum(1), torch.nan)

        found = _run(
            inspected,
            state,
            [
                Reduction(SMALLS, "attention", layers, _small),
                Reduction(SUMS, "attention", layers, given),
            ],
        )
        return Overview(found[SMALLS].astype(np.float16), found[SUMS])

    return _kept.get((SMALLS, *_key(inspected, state)), made)


def _run(inspected: Inspected, state: State, reductions: list[Reduction]) -> dict[str, np.ndarray]:
    """Each reduction of the pair [ways, layers, …]."""
    part = inspected.part(state.out, state.mode)
    variants = [NONE, *([Variant("heads out", (part,))] if part else [])]
    seen = inspected.run([(state.query, state.title)], variants, reductions)
    return {name: values[:, 0] for name, values in seen.reduced.items()}


def _key(inspected: Inspected, state: State) -> tuple[object, ...]:
    return inspected.key, state.query, state.title, state.out, state.mode


def _values(view: View) -> torch.Tensor:
    return view.values


def _small(view: View) -> torch.Tensor:
    size = min(SMALL, view.values.shape[-1])
    return torch.nn.functional.adaptive_max_pool2d(view.values.float(), size)


_kept = Kept(most_bytes=KEPT_BYTES)
