"""The pictures of the table: ρ of every model, all metrics, size against speed, heads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qt_bert.figures import Bars, BarSeries, Figure, HeatMap, Mark, Scatter
from qt_bert.probes.baselines.table import RHO, SHOWN, Measured, Table
from qt_bert.probes.baselines.words import NAMES, STARTS
from qt_bert.results.baselines import PRETRAINED, RANDOM
from qt_bert.results.quantities import metric_name
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import interval_or_reason
from qt_bert.text import Label, Text, joined

MODEL = Text("模型", "model")


def figures(table: Table) -> tuple[Figure, ...]:
    """ρ as bars, the metrics as a map with their figures, speed against ρ, the heads."""
    drawn: list[Figure] = [_correlations(table), _metrics(table), _speed(table)]
    if table.boundary:
        drawn.append(_boundary(table))
    if table.matching:
        drawn.append(_matching(table))
    return tuple(drawn)


def _correlations(table: Table) -> Bars:
    found = [table.measured[name][RHO] for name in table.names]
    return Bars(
        name="spearman",
        title=Text("各模型的 ρ", "ρ of every model"),
        x_label=MODEL,
        y_label=Text("斯皮尔曼 ρ", "Spearman's ρ"),
        unit="",
        categories=tuple(NAMES[name] for name in table.names),
        series=(
            BarSeries(
                name=Text("期望等级", "expected grade"),
                values=tuple(one.value for one in found),
                intervals=tuple(_interval(one) for one in found),
            ),
        ),
        digits=3,
        note=_trained(table),
    )


def _trained(table: Table) -> Text:
    """How the figures came about; rates were chosen where the record says that several were tried."""
    alike = Text(
        "验证集；95% 区间；同样的训练数据", "Validation; 95 % intervals; the same training data"
    )
    if not any(row.tried for row in table.stored.record.rows):
        return alike
    rates = Text("学习率按各自的结构在开发集上选", "rates chosen for each architecture on dev")
    return Text(f"{alike.zh}；{rates.zh}", f"{alike.en}; {rates.en}")


def _metrics(table: Table) -> HeatMap:
    values = [[table.measured[name][metric].value for metric in SHOWN] for name in table.names]
    return HeatMap(
        name="metrics",
        title=Text("各项指标", "All metrics"),
        x_label=Text("指标", "metric"),
        y_label=MODEL,
        unit="",
        columns=tuple(metric_name(metric) for metric in SHOWN),
        rows=tuple(NAMES[name] for name in table.names),
        values=tuple(tuple(row) for row in values),
        digits=3,
        note=Text("验证集；越大越好", "Validation; more is better"),
    )


def _sizes(table: Table) -> Text:
    """The parameters of every model, in millions."""
    sizes = [(NAMES[row.name], f"{row.parameters / 1e6:.1f}") for row in table.stored.record.rows]
    return Text(
        "参数个数（百万）：" + "，".join(f"{name.zh} {size}" for name, size in sizes),
        "Parameters in millions: " + ", ".join(f"{name.en} {size}" for name, size in sizes),
    )


def _speed(table: Table) -> Scatter:
    points = []
    for name in table.names:
        found, row = table.measured[name][RHO], table.stored.record.row(name)
        if found.value is not None:
            points.append(
                Mark(
                    x=row.pairs_per_second,
                    y=found.value,
                    series=_kind(row.architecture),
                    label=NAMES[name],
                    y_low=found.low,
                    y_high=found.high,
                )
            )
    return Scatter(
        name="speed",
        title=Text("速度与 ρ", "Speed and ρ"),
        x_label=Text("每秒打分的对数", "pairs graded a second"),
        y_label=Text("斯皮尔曼 ρ", "Spearman's ρ"),
        points=tuple(points),
        x_unit="",
        y_unit="",
        note=joined(
            (
                Text(
                    "同一次运行里轮流计时；越靠右上越好。",
                    "Timed in turns in one run; further up and to the right is better.",
                ),
                _sizes(table),
            )
        ),
    )


def _kind(architecture: str) -> Label:
    kinds: dict[str, Label] = {
        "cross-encoder": Text("拼接", "texts together"),
        "lexical": Text("字面", "letters"),
    }
    return kinds.get(architecture, Text("分开读", "texts apart"))


def _heads(
    name: str, title: Text, y_label: Text, found: Mapping[str, Measured], digits: int
) -> Bars:
    """The best head of each model that was pretrained anew, beside random weights."""
    names = [one for one in (*PRETRAINED, RANDOM) if one in found]
    return Bars(
        name=name,
        title=title,
        x_label=Text("预训练", "pretraining"),
        y_label=y_label,
        unit="",
        categories=tuple(STARTS[one] for one in names),
        series=(
            BarSeries(
                name=Text("最好的头", "best head"),
                values=tuple(found[one].value for one in names),
                intervals=tuple(_interval(found[one]) for one in names),
            ),
        ),
        digits=digits,
        note=Text(
            "微调之前；头在发现集上选出，数在验证集上；95% 区间",
            "Before fine-tuning; heads chosen on discovery, figures on validation; 95 % intervals",
        ),
    )


def _boundary(table: Table) -> Bars:
    found = {
        name: _measured(one.value, one.samples, one.n_queries)
        for name, one in table.boundary.items()
    }
    title = Text("短预训练之后最好的分词头", "The best boundary head after a short pretraining")
    return _heads("boundary", title, Text("AUC", "AUC"), found, 3)


def _matching(table: Table) -> Bars:
    found = {
        name: _measured(one.value, np.exp(one.logs), one.n_queries)
        for name, one in table.matching.items()
    }
    title = Text("短预训练之后最好的匹配头", "The best matching head after a short pretraining")
    return _heads("matching", title, Text("倍数", "ratio"), found, 2)


def _measured(value: float, samples: FloatArray, n_queries: int) -> Measured:
    low, high, _ = interval_or_reason(samples, n_queries)
    return Measured(None if np.isnan(value) else value, low, high)


def _interval(one: Measured) -> tuple[float, float] | None:
    return None if one.low is None or one.high is None else (one.low, one.high)
