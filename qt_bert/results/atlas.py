"""The head atlas: layers by heads, coloured by one quantity, the heads it singles out outlined.

Report and page draw these figures; they come from a run's results or from the file beside a model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from qt_bert.evaluation import METRICS
from qt_bert.results.figures import HeatMap
from qt_bert.results.head_table import HeadTable
from qt_bert.results.metric_names import metric_name
from qt_bert.results.probe import HEAD_NAME
from qt_bert.results.quantities import QUANTITIES, SIGNIFICANT, Quantity
from qt_bert.results.stability import set_label
from qt_bert.results.text import Text, joined

HEAD, LAYER = Text("头", "head"), Text("层", "layer")
_BEYOND = 0.05
"""The share of heads that may lie beyond the end of the colours of a skewed quantity."""

Place = tuple[int, int]


def atlas_figures(tables: Iterable[HeadTable]) -> list[HeatMap]:
    """One heat map of each quantity that the tables hold numbers for, named `atlas_NAME`."""
    return [atlas_figure(quantity, table) for quantity, table in offered(tables)]


def offered(tables: Iterable[HeadTable]) -> list[tuple[Quantity, HeadTable]]:
    """The quantities that these tables hold numbers for, each with its table."""
    by_probe = {table.probe: table for table in tables}
    found = ((one, by_probe[one.probe]) for one in QUANTITIES if one.probe in by_probe)
    return [(quantity, table) for quantity, table in found if values_of(quantity, table)]


def atlas_figure(quantity: Quantity, table: HeadTable) -> HeatMap:
    """Layers × heads of one quantity. Its note says the base, and what is outlined."""
    values = values_of(quantity, table)
    layers, heads = (
        1 + max((place[axis] for place in _places(table)), default=0) for axis in (0, 1)
    )
    high = _end_of_colours(list(values.values())) if quantity.skewed else quantity.high
    return HeatMap(
        name=f"atlas_{quantity.name}",
        title=quantity.title,
        x_label=HEAD,
        y_label=LAYER,
        unit=quantity.unit,
        columns=tuple(f"H{head}" for head in range(heads)),
        rows=tuple(f"L{layer}" for layer in range(layers)),
        values=tuple(
            tuple(values.get((layer, head)) for head in range(heads)) for layer in range(layers)
        ),
        marked=tuple(sorted(marked(quantity, table))),
        scale=quantity.scale,
        low=quantity.low,
        high=high,
        digits=quantity.digits,
        note=joined(_note(quantity, table, high)),
    )


def values_of(quantity: Quantity, table: HeadTable) -> dict[Place, float]:
    """(layer, head) → the quantity, of the heads for which it is known."""
    found = {place_of(head): quantity.value(scores) for head, scores in table.rows().items()}
    return {place: value for place, value in found.items() if value is not None}


def marked(quantity: Quantity, table: HeadTable) -> set[Place]:
    """The heads to outline: those of its named sets, or those whose effect is significant."""
    if quantity.marks:
        return {place_of(head) for name in quantity.marks for head in table.sets.get(name, ())}
    rows = table.rows().items()
    return {place_of(head) for head, scores in rows if quantity.stands_out(scores)}


def place_of(head: str) -> Place:
    """`L3H7` as (3, 7)."""
    found = HEAD_NAME.fullmatch(head)
    if found is None:  # a table checks its names
        raise ValueError(head)
    return int(found[1]), int(found[2])


def base_of(table: HeadTable) -> Text:
    """What the numbers rest on, in words."""
    pairs = table.pairs
    if pairs.n_pairs is None or pairs.n_queries is None:
        return Text(f"依据：{pairs.name}。", f"Base: {pairs.name}.")
    return Text(
        f"依据：{pairs.name} 的 {pairs.n_pairs:,} 对、{pairs.n_queries:,} 个查询。",
        f"Base: {pairs.n_pairs:,} pairs of {pairs.n_queries:,} queries of {pairs.name}.",
    )


def _note(quantity: Quantity, table: HeadTable, high: float | None) -> Iterator[Text]:
    yield quantity.means
    if quantity.score == "change" and table.metric in METRICS:
        title = metric_name(table.metric)
        yield Text(f"指标：{title.zh}。", f"The metric is {title.en}.")
    yield base_of(table)
    yield _outlined(quantity, table)
    if high is not None and any(abs(value) > high for value in values_of(quantity, table).values()):
        end = f"{'±' if quantity.scale == 'diverging' else ''}{high:.3g}"
        yield Text(
            f"颜色到 {end} 为止，更远的同色。", f"Colours end at {end}; beyond it is the same."
        )


def _outlined(quantity: Quantity, table: HeadTable) -> Text:
    if not quantity.marks:
        if not quantity.test:
            return Text("", "")
        return Text(
            f"粗框：q < {SIGNIFICANT}（在全部头上校正）。",
            f"Outlined: q < {SIGNIFICANT}, over all heads.",
        )
    marks = (name for name in quantity.marks if table.sets.get(name))
    names = [set_label(name, table.stability) for name in marks]
    if not names:
        return Text("没有选出的头。", "No head was named.")
    return Text(
        f"粗框：{'、'.join(one.zh for one in names)}。",
        f"Outlined: {', '.join(one.en for one in names)}.",
    )


def _end_of_colours(values: list[float]) -> float | None:
    ordered = sorted(values)
    return ordered[max(0, math.ceil((1 - _BEYOND) * len(ordered)) - 1)] if ordered else None


def _places(table: HeadTable) -> Iterator[Place]:
    named = (head for heads in table.sets.values() for head in heads)
    return map(place_of, (*table.heads, *named))
