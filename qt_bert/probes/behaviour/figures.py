"""The behaviour card as figures: scores, leans, outcomes, the curve over bands, and misses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qt_bert.figures import Bars, BarSeries, Curve, Figure, HeatMap, Point, Series
from qt_bert.probes.base import Context
from qt_bert.probes.behaviour.carried_figures import maps
from qt_bert.probes.behaviour.cases import ALIKE, BETTER, Relation
from qt_bert.probes.behaviour.estimates import Mean
from qt_bert.probes.behaviour.misses import misses
from qt_bert.probes.behaviour.study import Study
from qt_bert.probes.behaviour.tallies import Tally, scores_by_band
from qt_bert.probes.behaviour.words import ALIKE_NAME, BETTER_NAME, CASE_SCORE, PHENOMENON
from qt_bert.probes.display import known, resting_on, sample
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.stats.tests import q_values
from qt_bert.text import Label, Text

RELATION_NAMES: dict[Relation, Text] = {BETTER: BETTER_NAME, ALIKE: ALIKE_NAME}
SHARE = Text("案例份额", "share of cases")


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """All of them; those of scores rest on validation, the map on discovery."""
    base = sample(study.n_pairs, study.n_queries)
    own: list[Figure] = [*_scores(study), _leans(study), _outcomes(study), *_curve(study, context)]
    return (*resting_on(base, own), *maps(study), *misses(study))


def _of(study: Study, relation: Relation) -> list[Tally]:
    return [one for one in study.validation.tallies.values() if one.relation == relation]


def _scores(study: Study) -> Iterator[Bars]:
    digest = study.cases.texts_sha256[:12]
    band = study.band.said
    notes = {
        BETTER: Text(
            f"更好的标题高出容差以上为对，低出容差以上为错，其余算未定；容差 {band.zh}。案例文本的 SHA-256 以 "
            f"{digest} 开头",
            f"Right where the better title scores higher by more than the band, wrong where lower by "
            f"more, else undecided; band {band.en}. SHA-256 of the cases' texts begins with {digest}",
        ),
        ALIKE: Text(
            f"两个标题相差不超过容差（{band.zh}）为对，否则为错",
            f"Right where the two titles part by no more than the band ({band.en}), else wrong",
        ),
    }
    titles = {
        BETTER: Text("应当更好：分得清哪个标题更好吗", "Better: does it tell the better title?"),
        ALIKE: Text(
            "应当相同：不受表面变化影响吗", "Alike: is it unmoved by what must not matter?"
        ),
    }
    for relation, title in titles.items():
        if found := _of(study, relation):
            scores = [one.score for one in found]
            names = f"scores_{relation}", title, CASE_SCORE, ""
            yield _bars(names, found, scores, notes[relation])


def _leans(study: Study) -> Bars:
    """The mean Δ of every phenomenon; leans that are no chance are named."""
    found = [*_of(study, BETTER), *_of(study, ALIKE)]
    title = Text("两个标题平均差多少", "How far the two titles part on average")
    return _bars(
        ("mean_difference", title, Text("平均差", "mean difference"), study.band.unit),
        found,
        [one.delta for one in found],
        Text(
            f"前一标题减后一标题。应当更好的现象，高于 0 为对；应当相同的，0 为对，高于 0 为偏向未改动的标题"
            f"{_lean_words(study).zh}",
            "The first title's less the second's. Of better phenomena above 0 is right; of alike ones "
            f"0 is, and above 0 the unchanged title is preferred{_lean_words(study).en}",
        ),
    )


def _lean_words(study: Study) -> Text:
    found = _of(study, ALIKE)
    tested = q_values([one.delta.p for one in found])
    sure = [
        phenomenon_name(one.phenomenon)
        for one, q in zip(found, tested, strict=True)
        if q is not None and q < FALSE_DISCOVERY_RATE
    ]
    if not sure:
        return Text("", "")
    return Text(
        f"。偏向不是偶然的（q < 0.05）：{'；'.join(one.zh for one in sure)}",
        f". Leans beyond chance (q < 0.05): {'; '.join(one.en for one in sure)}",
    )


def _bars(
    names: tuple[str, Text, Text, Label], found: Sequence[Tally], means: Sequence[Mean], note: Text
) -> Bars:
    """One bar a phenomenon; `names` are the figure's, its title, its quantity and the unit."""
    name, title, quantity, unit = names
    return Bars(
        name=name,
        title=title,
        x_label=PHENOMENON,
        y_label=quantity,
        unit=unit,
        categories=tuple(phenomenon_name(one.phenomenon) for one in found),
        series=(
            BarSeries(
                name=quantity,
                values=tuple(known(one.value) for one in means),
                intervals=tuple(one.interval for one in means),
            ),
        ),
        note=note,
    )


def _outcomes(study: Study) -> HeatMap:
    found = [*_of(study, BETTER), *_of(study, ALIKE)]
    columns = {
        Text("对", "right"): [one.right / one.n for one in found],
        Text("未定", "undecided"): [
            one.undecided / one.n if one.relation == BETTER else None for one in found
        ],
        Text("错", "wrong"): [one.wrong / one.n for one in found],
        Text("前一标题更高", "first title higher"): [one.higher.value for one in found],
    }
    rows = tuple(zip(*columns.values(), strict=True))
    return HeatMap(
        name="outcomes",
        title=Text(
            "每种现象判对、判错各多少", "How many cases of each phenomenon are right and wrong"
        ),
        x_label=Text("结果", "outcome"),
        y_label=PHENOMENON,
        unit=SHARE,
        columns=tuple(columns),
        rows=tuple(phenomenon_name(one.phenomenon) for one in found),
        values=rows,
        low=0.0,
        high=1.0,
        note=Text(
            "“前一标题更高”不计容差；应当相同的现象里，一半上下才是没有偏向",
            "The last column takes no band; of alike phenomena about a half means no lean",
        ),
    )


def _curve(study: Study, context: Context) -> Iterator[Curve]:
    bands = study.band.curve()
    if not bands:
        return
    found = scores_by_band(
        study.validation.judged, bands, resamples=context.resamples, seed=context.seed
    )
    yield Curve(
        name="bands",
        title=Text("容差放宽时的得分", "Scores as the band widens"),
        x_label=Text("容差", "band"),
        x_unit=study.band.unit,
        y_label=CASE_SCORE,
        unit="",
        series=tuple(
            Series(
                name=RELATION_NAMES[relation],
                points=tuple(_point(x, one) for x, one in zip(bands, means, strict=True)),
            )
            for relation, means in found.items()
        ),
        note=Text(f"所用的容差：{study.band.said.zh}", f"The band used: {study.band.said.en}"),
    )


def _point(x: float, one: Mean) -> Point:
    low, high = one.interval or (None, None)
    return Point(x=x, y=one.value, low=low, high=high, n=one.n)
