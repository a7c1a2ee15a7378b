"""The pictures of the ladders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qt_bert.ablation.masks import CONVENTIONS, Convention
from qt_bert.figures import Bars, BarSeries, Curve, Figure, HeatMap, Point, Series
from qt_bert.probes.display import resting_on, sample_of
from qt_bert.probes.ladder.losses import Loss, Losses
from qt_bert.probes.ladder.measures import EXPECTED, LEAST_LOSS, ORDER, measure
from qt_bert.probes.ladder.rungs import Ladder
from qt_bert.probes.ladder.study import Study
from qt_bert.probes.ladder.words import (
    CONVENTION_NAMES,
    DISCOVERY,
    LOSS,
    VALIDATION,
    bar_of,
    digits_of,
    named,
)
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.text import Label, Text

RUNG = Text("切开最低几层", "lowest layers cut")


def figures(study: Study) -> tuple[Figure, ...]:
    """Where the first layer lies, every direction, what was tested, and where the loss comes from."""
    here = sample_of(study.validation.folder.pairs)
    there = sample_of(study.discovery.folder.pairs)
    both = Text(
        f"{DISCOVERY.zh} {there.zh}；{VALIDATION.zh} {here.zh}",
        f"{DISCOVERY.en} {there.en}; {VALIDATION.en} {here.en}",
    )
    drawn: list[Figure] = [
        curve for convention in CONVENTIONS for curve in _directions(study, convention)
    ]
    return (
        *resting_on(both, [_first(study)]),
        *resting_on(here, [*drawn, _tested(study), *_steps(study)]),
    )


def _first(study: Study) -> Curve:
    """*all* on both halves, beside the loss that counts as none."""
    what = measure(study.metric, study.validation.labels)
    said, bar = bar_of(what), LEAST_LOSS / what.scale
    ends = (Point(x=0, y=bar), Point(x=study.layers, y=bar))
    return Curve(
        name="ladder_first",
        title=Text(
            f"从最低层起三种都切（all），{what.title.zh}的{LOSS.zh}",
            f"{LOSS.en.capitalize()} of {what.title.en} with all three cut from the lowest layer up",
        ),
        x_label=RUNG,
        y_label=LOSS,
        unit=what.unit,
        series=(
            *(
                _series(one.name, losses_of(one, study.all, study.metric))
                for one in (study.discovery, study.validation)
            ),
            Series(name=said, points=ends, dashed=True),
        ),
        note=Text(
            f"横轴为 l 时，L0 到 L(l−1) 已切开。区间上端不到 {said.zh}的算没有损失；"
            "从左数第一个有损失的一级所多切的那一层，是第一个必须同时看到两段文本的层",
            f"At l, L0 to L(l−1) are cut. A loss whose interval ends below {said.en} counts as none; what the "
            "first rung with a loss cuts besides is the first layer that must see both texts",
        ),
    )


def _directions(study: Study, convention: Convention) -> Iterator[Curve]:
    """A curve a metric, a line a direction; none where this convention was not climbed."""
    climbed = [one for one in study.ladders.values() if one.convention == convention]
    losses, how = study.validation, CONVENTION_NAMES[convention]
    for metric in dict.fromkeys((study.metric, ORDER, EXPECTED)) if climbed else ():
        what = measure(metric, losses.labels)
        yield Curve(
            name=f"ladder_{metric}" + ("" if convention == "before" else f"_{convention}"),
            title=Text(
                f"按方向切开，{what.title.zh}的{LOSS.zh}（{how.zh}）",
                f"{LOSS.en.capitalize()} of {what.title.en} by what is cut ({how.en})",
            ),
            x_label=RUNG,
            y_label=LOSS,
            unit=what.unit,
            series=tuple(
                _series(named(one.direction), losses_of(losses, one, metric)) for one in climbed
            ),
        )


def losses_of(losses: Losses, ladder: Ladder, metric: str) -> dict[int, Loss]:
    """Rung → its loss; rungs without one are left out."""
    found = {layers: losses.loss(variant, metric) for layers, variant in ladder.rungs.items()}
    return {layers: loss for layers, loss in found.items() if loss is not None}


def _series(name: Label, found: Mapping[int, Loss]) -> Series:
    points = [Point(x=x, y=one.value, low=one.low, high=one.high) for x, one in found.items()]
    return Series(name=name, points=(Point(x=0, y=0), *points) if points else ())


def _tested(study: Study) -> HeatMap:
    """Every rung's loss in numbers; what its q tells from 0 is outlined."""
    what = measure(study.metric, study.validation.labels)
    rungs, climbed = range(1, study.layers + 1), list(study.ladders.values())
    found = [losses_of(study.validation, ladder, study.metric) for ladder in climbed]
    return HeatMap(
        name="ladder_rungs",
        title=Text(
            f"每一级{what.title.zh}的{LOSS.zh}",
            f"{LOSS.en.capitalize()} of {what.title.en} on every rung",
        ),
        x_label=RUNG,
        y_label=Text("切开什么", "what is cut"),
        unit=what.unit,
        columns=tuple(map(str, rungs)),
        rows=tuple(named(one.direction, one.convention) for one in climbed),
        values=tuple(
            tuple(one[rung].value if rung in one else None for rung in rungs) for one in found
        ),
        marked=tuple(
            (row, rung - 1)
            for row, key in enumerate(study.ladders)
            for rung, q in study.q[key].items()
            if q is not None and q < FALSE_DISCOVERY_RATE
        ),
        scale="diverging",
        digits=digits_of(what),
        note=Text(
            "粗框：q < 0.05（每行为一族，按查询整体互换两次预测）",
            "Outlined: q < 0.05 (a row is a family; predictions of whole queries are swapped)",
        ),
    )


def _steps(study: Study) -> Iterator[Bars]:
    """What each layer adds to the loss of ρ as *all* climbs, with the layers of the matching heads."""
    losses, asked = study.validation, study.asked
    what, found = measure(ORDER, losses.labels), losses.steps(study.all, ORDER)
    if not found:
        return
    who = Text("没有可问的匹配头", "there are no matching heads to ask about")
    if asked is not None:
        listed = " ".join(map(str, asked.heads))
        who = Text(f"{asked.said.zh}：{listed}", f"{asked.said.en}: {listed}")
    yield Bars(
        name="ladder_steps",
        title=Text(
            f"三种都切（all），每多切一层{what.title.zh}又{LOSS.zh}多少",
            f"What each layer adds to the {LOSS.en} of {what.title.en} as *all* climbs",
        ),
        x_label=Text("多切的层", "layer cut besides"),
        y_label=LOSS,
        unit=what.unit,
        categories=tuple(f"L{layer}" for layer in range(study.layers)),
        series=(
            BarSeries(
                name=what.title,
                values=tuple(one.value for one in found),
                intervals=tuple(
                    None if one.low is None or one.high is None else (one.low, one.high)
                    for one in found
                ),
            ),
        ),
        digits=3,
        note=Text(who.zh, who.en[:1].upper() + who.en[1:]),
    )
