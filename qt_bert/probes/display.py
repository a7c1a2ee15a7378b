"""What figures rest on, in words; heat maps of heads and of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.figures import Figure, HeatMap
from qt_bert.models.heads import Head
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Label, Text, counted

# What figures and sentences rest on, in words.


def sample(pairs: int, queries: int) -> Text:
    """`48 pairs of 40 queries`."""
    return Text(
        f"{pairs:,} 对、{queries:,} 个查询",
        f"{counted(pairs, 'pair')} of {counted(queries, 'query', 'queries')}",
    )


def sample_of(pairs: Sequence[Pair]) -> Text:
    """The same of the pairs themselves."""
    return sample(len(pairs), len({pair.query for pair in pairs}))


def resting_on(base: Text, figures: Iterable[Figure]) -> Iterator[Figure]:
    """`figures`, their base said at the end of their notes."""
    for figure in figures:
        yield ending_with(Text(f"依据：{base.zh}。", f"Base: {base.en}."), figure)


def ending_with(sentence: Text, figure: Figure) -> Figure:
    """`figure` with a sentence at the end of its note."""
    if figure.note is None:
        return replace(figure, note=sentence)
    zh, en = figure.note.zh.rstrip("。"), figure.note.en.rstrip(".")
    return replace(figure, note=Text(f"{zh}。{sentence.zh}", f"{en}. {sentence.en}"))


# Heat maps of layers by heads, and of tokens by tokens.


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


def known(value: Any) -> float | None:
    """A number as results hold it: None where there is none or it is not finite."""
    return None if value is None or not np.isfinite(value) else float(value)
