"""The pictures and the table of what another order of the words does to a grade."""

from __future__ import annotations

from typing import NamedTuple

from qt_bert.encoder import ModelLabels
from qt_bert.inspection.views.order import Order, Range, Spread
from qt_bert.inspection.views.units import score_name, score_unit
from qt_bert.probes.common.maps import cells
from qt_bert.probes.word_order.figures import AS_IT_WAS, grade_bars
from qt_bert.results import Bars, HeatMap, Text
from qt_bert.results.figures import BarSeries
from qt_bert.results.numbers import number, signed

SHUFFLED = Text("乱序", "reordered")


def distributions(found: Order) -> Bars:
    """What the model gives: as it was, in the other order, and that without each set of heads.

    Of random sets the mean, with the range over the draws as its interval.
    """
    first = found.ways[0]
    series = [BarSeries(name=AS_IT_WAS, values=_means(first.shares_before))]
    for way in found.ways:
        name = SHUFFLED if way is first else _joined(SHUFFLED, way.name)
        series.append(
            BarSeries(
                name=name,
                values=_means(way.shares_after),
                intervals=tuple((one.low, one.high) for one in way.shares_after)
                if way.random
                else None,
            )
        )
    draws = max((way.draws for way in found.ways if way.random), default=0)
    return grade_bars(
        "order_grades",
        Text("原样与乱序", "As it was, and reordered"),
        found.labels,
        series,
        Text(
            f"随机头：至多 {draws} 组的平均，线为最小到最大"
            if draws
            else "一对，一次乱序；没有区间",
            f"Random heads: the mean of up to {draws} sets; lines from the least to the largest"
            if draws
            else "One pair in one other order; no intervals",
        ),
    )


def rows(found: Order) -> list[dict[str, str | int | float | Text | None]]:
    """A row a way: what is left out, scores of both orders, their difference; keys as in COLUMNS."""
    return [
        {
            "name": Text(f"{way.name.zh} × {way.draws}", f"{way.name.en} × {way.draws}")
            if way.random
            else way.name,
            "heads": way.size,
            "before": way.before.mean,
            "after": way.after.mean,
            "change": way.change.mean,
            "range": f"{signed(way.change.low)} … {signed(way.change.high)}"
            if way.random
            else None,
            "predicted": " → ".join(way.grades) if way.grades else None,
        }
        for way in found.ways
    ]


def spread_bars(found: Spread, labels: ModelLabels) -> Bars:
    """The mean change over the draws, plainly and without each set; lines from least to largest."""
    ranges, change = [Range.of(row) for row in found.changes], _change(labels)
    draws = found.changes.shape[1]
    return Bars(
        name="order_draws",
        title=Text(
            f"{draws} 次乱序（{found.different} 种不同的文本）：{change.zh}",
            f"{draws} draws ({found.different} different texts): {change.en}",
        ),
        x_label=Text("去掉的头", "heads left out"),
        y_label=change,
        unit=score_unit(labels),
        categories=found.names,
        series=(
            BarSeries(
                name=Text("平均（线：最小到最大）", "mean (line: least to largest)"),
                values=tuple(one.mean for one in ranges),
                intervals=tuple((one.low, one.high) for one in ranges),
            ),
        ),
        note=Text(
            "每次都与同样去掉头的原文本相比",
            "Each against the text as it was, with the same heads left out",
        ),
    )


def draws_map(found: Spread, labels: ModelLabels, first_seed: int) -> HeatMap:
    """Every draw's change, by its seed."""
    change = _change(labels)
    return HeatMap(
        name="order_each_draw",
        title=Text(f"每次乱序：{change.zh}", f"Every draw: {change.en}"),
        x_label=Text("种子", "seed"),
        y_label=Text("去掉的头", "heads left out"),
        unit=score_unit(labels),
        columns=tuple(str(first_seed + at) for at in range(found.changes.shape[1])),
        rows=found.names,
        values=cells(found.changes),
        scale="diverging",
    )


class Number(NamedTuple):
    """One number above the pictures: what it is, the value, and its change where it has one."""

    name: Text
    value: str
    change: str | None = None


def headline(found: Order) -> list[Number]:
    """The score as it was, in the other order, and that without each set of heads."""
    first = found.ways[0]
    said = [Number(AS_IT_WAS, number(first.before.mean))]
    for way in found.ways:
        if not way.random:
            name = SHUFFLED if way is first else _joined(SHUFFLED, way.name)
            said.append(Number(name, number(way.after.mean), signed(way.change.mean)))
    return said


def _means(ranges: tuple[Range, ...]) -> tuple[float, ...]:
    return tuple(one.mean for one in ranges)


def _change(labels: ModelLabels) -> Text:
    name = score_name(labels)
    return Text(f"{name.zh}的变化", f"change of the {name.en}")


def _joined(one: Text, other: Text) -> Text:
    return Text(f"{one.zh}，去掉{other.zh}", f"{one.en}, {other.en} out")
