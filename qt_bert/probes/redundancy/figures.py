"""The pictures of the redundancy study."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.ablation.masks import MODES
from qt_bert.figures import Bars, BarSeries, Curve, Figure, HeatMap, Point, Series
from qt_bert.probes.claims import POINT, POINTS
from qt_bert.probes.display import LAYER, head_map, resting_on, sample
from qt_bert.probes.redundancy.averages import mean_over_draws, steps_of
from qt_bert.probes.redundancy.study import Study, Sweep, named
from qt_bert.probes.redundancy.words import of_metric
from qt_bert.stats.intervals import interval_or_reason
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.text import Text

SHARE = Text("去掉的头占全部头的比例", "share of all heads left out")
MODE_NAMES = {
    "zero": Text("置零", "zero"),
    "uniform": Text("均匀注意力", "uniform attention"),
    "mean": Text("均值", "mean context"),
}


def figures(study: Study, seed: int, *, full: bool) -> tuple[Figure, ...]:
    """Curves over shares, bars of layers, heat maps of single heads and their importance."""
    modes = MODES if full else MODES[:1]
    sweep = study.validation
    drawn: tuple[Figure, ...] = (
        _random_curve(sweep, seed),
        *_halves_curve(sweep, seed),
        *(_single_map(study, mode) for mode in modes),
        _importance_map(study),
        _layer_bars(study),
    )
    return tuple(resting_on(sample(len(sweep.folder.pairs), sweep.n_queries), drawn))


def _change(sweep: Sweep) -> Text:
    name = sweep.metric_name
    return Text(f"{name.zh}变化", f"change of {of_metric(name)}")


def _random_curve(sweep: Sweep, seed: int) -> Curve:
    return Curve(
        name="random_shares",
        title=Text("随机去掉一部分头", "A random share of the heads left out"),
        x_label=SHARE,
        y_label=_change(sweep),
        unit=POINTS,
        x_unit="%",
        series=tuple(
            _series(sweep, named("random", mode), MODE_NAMES[mode], seed, dashed=mode != "zero")
            for mode in MODES
            if named("random", mode) in sweep.by_family
        ),
    )


def _halves_curve(sweep: Sweep, seed: int) -> tuple[Curve, ...]:
    if "low" not in sweep.by_family:
        return ()
    return (
        Curve(
            name="halves",
            title=Text("只去掉低半层或高半层的头", "Heads of the low or the high half left out"),
            x_label=SHARE,
            y_label=_change(sweep),
            unit=POINTS,
            x_unit="%",
            series=(
                _series(sweep, "low", Text("低半层", "low half"), seed),
                _series(sweep, "high", Text("高半层", "high half"), seed),
            ),
        ),
    )


def _series(sweep: Sweep, family: str, name: Text, seed: int, *, dashed: bool = False) -> Series:
    points = [Point(x=0.0, y=0.0)]
    for share, rows in steps_of(sweep, family).items():
        mean = mean_over_draws(sweep, rows, seed)
        low, high, _ = interval_or_reason(mean.samples, sweep.n_queries)
        points.append(Point(x=share, y=mean.value, low=low, high=high, n=len(rows)))
    return Series(name=name, points=tuple(points), dashed=dashed)


def _layer_bars(study: Study) -> Bars:
    layers = sorted({head.layer for head in study.shape.all_heads})
    return Bars(
        name="layers",
        title=Text("去掉一整层的头", "All heads of one layer left out"),
        x_label=LAYER,
        y_label=_change(study.validation),
        unit=POINTS,
        categories=tuple(f"L{layer}" for layer in layers),
        series=tuple(
            _bar_series(study.validation, [named(f"L{n}", mode) for n in layers], MODE_NAMES[mode])
            for mode in MODES
        ),
        digits=1,
    )


def _bar_series(sweep: Sweep, names: Sequence[str], title: Text) -> BarSeries:
    rows = [sweep.rows[name, sweep.metric] for name in names]
    return BarSeries(
        name=title,
        values=tuple(None if row.absolute is None else row.absolute / POINT for row in rows),
        intervals=tuple(
            None
            if row.ci_low is None or row.ci_high is None
            else (row.ci_low / POINT, row.ci_high / POINT)
            for row in rows
        ),
    )


def _single_map(study: Study, mode: str) -> HeatMap:
    sweep, shape = study.validation, study.shape
    rows = {head: sweep.rows[named(str(head), mode), sweep.metric] for head in shape.all_heads}
    marked = [
        head for head, row in rows.items() if row.q is not None and row.q < FALSE_DISCOVERY_RATE
    ]
    changes = np.array([row.absolute for row in rows.values()], np.float64) / POINT
    return head_map(
        f"single_{mode}",
        Text(
            f"单独去掉每个头（{MODE_NAMES[mode].zh}）",
            f"Each head left out alone ({MODE_NAMES[mode].en})",
        ),
        POINTS,
        shape.spread(changes),
        scale="diverging",
        marked=marked,
        digits=1,
        note=Text("粗框：q < 0.05", "Outlined: q < 0.05"),
    )


def _importance_map(study: Study) -> HeatMap:
    return head_map(
        "importance",
        Text("梯度重要性", "Gradient importance"),
        Text("|∂L/∂ξ| 的均值", "mean |∂L/∂ξ|"),
        study.importance.raw,
        scale="sequential",
        digits=3,
        low=0.0,
    )
