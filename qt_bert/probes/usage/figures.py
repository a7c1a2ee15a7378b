"""The study of encoded against used as figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from qt_bert.figures import Bars, BarSeries, Figure, HeatMap, Mark, Scatter
from qt_bert.probes.display import cells, known, resting_on, sample
from qt_bert.probes.naming import Estimate
from qt_bert.probes.usage.claims import unit
from qt_bert.probes.usage.study import CEILING, Study
from qt_bert.probes.usage.sweeping import PERMUTED, RANDOM
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Label, Text

SHARE = Text("份额", "share")
PLACE, PROPERTY = Text("层", "layer"), Text("性质", "property")
READABLE = Text("读得出多少（对照为 0，全对为 1）", "read (0: as the control, 1: perfectly)")
BEYOND = Text("抹去后比对照多变多少", "moved by erasing, beyond controls")
_NAMES = {
    PERMUTED: Text("抹去打乱的标签", "permuted labels erased"),
    RANDOM: Text("去掉等秩等方差的随机子空间", "random subspace of equal rank and variance out"),
}


def figures(study: Study) -> tuple[Figure, ...]:
    """The map, both of its sides by layer, the controls, and what becomes of ρ and accuracy."""
    base = sample(study.changes.n_pairs, study.changes.n_queries)
    return (*resting_on(base, [_map(study), *_moved(study)]), _readable(study))


def _moved(study: Study) -> Iterator[Figure]:
    yield _heat(
        study,
        "usage_used",
        Text("各层抹去各性质后，打分比对照多变多少", "What erasing moves beyond its controls"),
        unit(study),
        study.used,
        Text(
            "取两种对照中变化较大的一种来比；区间整个在 0 以上的格子加框。“相关性档位”无对照，只作参照",
            "Against the control that moves the grades more; outlined where the whole interval lies "
            "above 0. The grade has no control and is there for comparison",
        ),
    )
    yield _bars(study)
    yield from _beside(study)


def _readable(study: Study) -> HeatMap:
    counts = [len(one.task.check) for one in study.encoded]
    fewest, most = min(counts), max(counts)
    return _heat(
        study,
        "usage_readable",
        Text("各层读得出多少", "How well each property is read"),
        SHARE,
        lambda name, place: study.decodable[name, place],
        Text(
            f"0 是对照，1 是全对；区间整个在 0 以上的格子加框。依据：验证集上每种性质 {fewest:,} 至 "
            f"{most:,} 个样例（字或文本）。",
            "0 is the control, 1 is perfect; outlined where the whole interval lies above 0. Base: "
            f"{fewest:,} to {most:,} examples (characters or texts) of each property in validation.",
        ),
    )


def _map(study: Study) -> Scatter:
    points = []
    for one in study.encoded:
        for place in study.places:
            x, y = study.decodable[one.name, place], study.used(one.name, place)
            if np.isfinite(x.value) and np.isfinite(y.value):
                (x_low, x_high), (y_low, y_high) = _ends(x), _ends(y)
                points.append(
                    Mark(
                        x=x.value,
                        y=y.value,
                        series=one.task.about.title,
                        label=f"r{place}",
                        x_low=x_low,
                        x_high=x_high,
                        y_low=y_low,
                        y_high=y_high,
                    )
                )
    return Scatter(
        name="usage_map",
        title=Text("知识地图：读得出的与用到的", "The map of knowledge: read against used"),
        x_label=READABLE,
        y_label=BEYOND,
        y_unit=unit(study),
        points=tuple(points),
        note=Text(
            "靠右：向量里读得出来；靠上：抹去它，打分的变化超出对照。右下角是含有而未用到的。"
            "rn 是第 n 层之前的向量，r0 是嵌入",
            "To the right: it can be read from the vectors; high up: erasing it moves the grades "
            "beyond controls. Below on the right stands what is encoded and not used. rn are the "
            "vectors that layer n reads, r0 the embeddings",
        ),
    )


def _heat(
    study: Study,
    name: str,
    title: Text,
    unit: Label,
    at: Callable[[str, int], Estimate],
    note: Text | None = None,
) -> HeatMap:
    """Properties by places, outlined where the interval of a property that is tested excludes 0."""
    found = [[at(one.name, place) for place in study.places] for one in study.encoded]
    lows = [[_ends(one)[0] for one in row] for row in found]
    highs = [[_ends(one)[1] for one in row] for row in found]
    marked = [
        (row, column)
        for row, one in enumerate(study.encoded)
        for column in range(len(study.places))
        if one.name != CEILING and _excludes_zero(lows[row][column], highs[row][column], name)
    ]
    return HeatMap(
        name=name,
        title=title,
        x_label=PLACE,
        y_label=PROPERTY,
        unit=unit,
        columns=tuple(f"r{place}" for place in study.places),
        rows=tuple(one.task.about.title for one in study.encoded),
        values=cells(np.array([[one.value for one in row] for row in found])),
        marked=tuple(marked),
        scale="sequential" if name == "usage_readable" else "diverging",
        digits=2 if name == "usage_readable" else 3,
        note=note,
    )


def _excludes_zero(low: float | None, high: float | None, name: str) -> bool:
    if low is None or high is None:
        return False
    return low > 0 or (high < 0 and name not in ("usage_used", "usage_readable"))


def _bars(study: Study) -> Bars:
    """How far the grades move, in the mean over the places: erased, and under either control."""
    erased = [study.mean_moved(name) for name in study.names]
    series = [_series(Text("抹去这种性质", "the property erased"), erased)]
    for control, title in _NAMES.items():
        under = [
            study.mean_moved(name).less(study.mean_moved(name, control))
            if control in study.everywhere(name)
            else None
            for name in study.names
        ]
        series.append(_series(title, under))
    return Bars(
        name="usage_controls",
        title=Text("打分变化：抹去性质与两种对照", "Grades moved: by erasing, and by the controls"),
        x_label=PROPERTY,
        y_label=Text("各层平均", "mean over layers"),
        unit=unit(study),
        categories=tuple(one.task.about.title for one in study.encoded),
        series=tuple(series),
        digits=3,
    )


def _series(name: Text, found: Sequence[Estimate | None]) -> BarSeries:
    return BarSeries(
        name=name,
        values=tuple(None if one is None else known(one.value) for one in found),
        intervals=tuple(None if one is None else percentile_interval(one.samples) for one in found),
    )


def _beside(study: Study) -> Iterator[HeatMap]:
    """Absolute changes of rank correlation and accuracy, controls not taken off."""
    metrics = study.changes.metrics
    said: dict[str, tuple[Text, Label]] = {
        metrics.ranks: (Text("抹去后 ρ 的变化", "The change of ρ by erasing"), "ρ"),
        metrics.right: (Text("抹去后准确率的变化", "The change of accuracy by erasing"), SHARE),
    }
    for metric, (title, in_what) in said.items():
        if study.changes.plain[metric] is not None:
            at = partial(_erased, study, metric)
            note = Text(
                "未减去对照；区间不含 0 的格子加框",
                "Controls are not taken off; outlined where the interval excludes 0",
            )
            yield _heat(study, f"usage_{metric}", title, in_what, at, note)


def _erased(study: Study, metric: str, name: str, place: int) -> Estimate:
    return study.changes.effects[name, place, metric].erased


def _ends(one: Estimate) -> tuple[float | None, float | None]:
    return percentile_interval(one.samples) or (None, None)
