"""Heat maps of layers by heads, and of tokens by tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.results import HeatMap, Text
from qt_bert.results.text import Label

HEAD, LAYER = Text("头", "head"), Text("层", "layer")
LOOKING, LOOKED_AT = Text("谁在看", "looking"), Text("看谁", "looked at")
ATTENTION = Text("注意力", "attention")


def head_map(
    name: str,
    title: Text,
    unit: Label,
    values: FloatArray,
    *,
    marked: Iterable[Head] = (),
    **options: Any,
) -> HeatMap:
    """`values` [layers, heads] as a heat map, the heads `marked` outlined; `options` are HeatMap's."""
    layers, heads = values.shape
    return HeatMap(
        name=name,
        title=title,
        x_label=HEAD,
        y_label=LAYER,
        unit=unit,
        columns=tuple(f"H{head}" for head in range(heads)),
        rows=tuple(f"L{layer}" for layer in range(layers)),
        values=cells(values),
        marked=tuple((head.layer, head.head) for head in marked),
        **options,
    )


def token_map(
    name: str,
    title: Text,
    looking: Sequence[str],
    looked_at: Sequence[str],
    values: FloatArray,
    **options: Any,
) -> HeatMap:
    """One head's `values` [looking, looked at] as a heat map; `options` are HeatMap's."""
    return HeatMap(
        name=name,
        title=title,
        x_label=LOOKED_AT,
        y_label=LOOKING,
        unit=ATTENTION,
        columns=tuple(looked_at),
        rows=tuple(looking),
        values=cells(values),
        **options,
    )


def cells(values: FloatArray) -> tuple[tuple[float | None, ...], ...]:
    """A matrix as a figure holds it: None where there is no number."""
    return tuple(tuple(known(value) for value in row) for row in values)


def known(value: float) -> float | None:
    """A number as a figure holds it: None where it is not finite."""
    return float(value) if np.isfinite(value) else None
